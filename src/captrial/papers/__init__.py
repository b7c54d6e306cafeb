"""The experiments of Cornia 2022, Wan 2022 and Liu 2017: every table and figure, with the papers' numbers beside ours.

`papers.json` declares the experiments (`experiments` reads it); `wan2022`, `cornia2022` and `liu2017` run them;
`reproduction` keeps finished results; `reproduction_page` writes the page. Names are imported when first used: the
competition of Wan 2022 needs no torch.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.papers.cornia2022 import Cornia2022, Cornia2022Settings
    from captrial.papers.experiments import Experiment, ExperimentOutput, ExperimentResult, Paper, load_papers
    from captrial.papers.liu2017 import Liu2017, Liu2017Settings
    from captrial.papers.reproduction import Reproduction, reproduce
    from captrial.papers.reproduction_page import write_reproduction_page
    from captrial.papers.wan2022 import Wan2022
    from captrial.papers.wan2022_competition import Wan2022Settings

__all__ = [
    "Cornia2022",
    "Cornia2022Settings",
    "Experiment",
    "ExperimentOutput",
    "ExperimentResult",
    "Liu2017",
    "Liu2017Settings",
    "Paper",
    "Reproduction",
    "Wan2022",
    "Wan2022Settings",
    "load_papers",
    "reproduce",
    "write_reproduction_page",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "cornia2022": "Cornia2022 Cornia2022Settings",
        "experiments": "Experiment ExperimentOutput ExperimentResult Paper load_papers",
        "liu2017": "Liu2017 Liu2017Settings",
        "reproduction": "Reproduction reproduce",
        "reproduction_page": "write_reproduction_page",
        "wan2022": "Wan2022",
        "wan2022_competition": "Wan2022Settings",
    },
)
