"""The demonstration: a whole trial on rendered images, offline, in a few minutes.

Five captioners are trained on tidy and wild images of the toy world and tested on other wild ones. They are ranked by a
competition (simulated annotators label the selected images over the real web application), every caption is checked
against what is in its image, words are grounded, and attention is compared with annotated regions. The shipped
captioners compete on photographs. One page shows the results.

Names are imported when first used.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.demo.demo_plan import DemoCaptioner, DemoPlan
    from captrial.demo.demonstration import Demo
    from captrial.demo.sample_data import ExampleSettings, write_sample

__all__ = ["Demo", "DemoCaptioner", "DemoPlan", "ExampleSettings", "write_sample"]

__getattr__ = lazy_exports(
    __name__,
    {
        "demo_plan": "DemoCaptioner DemoPlan",
        "demonstration": "Demo",
        "sample_data": "ExampleSettings write_sample",
    },
)
