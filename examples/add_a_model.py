# %% [markdown]
# # Add a model
# A captioner is anything with `caption(images) -> list[str]`. It can join a competition that is already decided:
# only the images on which it differs most from the others need labels.

# %%
import json
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

import captrial
from captrial.compete import SelectionSettings
from captrial.data import write_captions
from captrial.toyworld import ToyWorld

OUT, IMAGES, BUDGET = Path("out/add"), 60, 8
(OUT / "images").mkdir(parents=True, exist_ok=True)
world, truth = ToyWorld(size=160), {}
for number in range(IMAGES):
    image = world.render("test", number)
    Image.fromarray(image.pixels).save(OUT / "images" / f"{number}.png")
    truth[f"{number}.png"] = list(image.sample.captions)


# %% [markdown]
# A model of your own: this one sees nothing but the colour of the ground.


# %%
class GroundWatcher:
    """Says what an image's lower third is, by its mean colour."""

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        """One caption an image."""
        return [self._describe(image) for image in images]

    def _describe(self, image: Image.Image) -> str:
        ground = image.crop((0, 2 * image.height // 3, image.width, image.height))
        red, green, blue = ground.resize((1, 1)).getpixel((0, 0))
        place = "on the grass" if green > max(red, blue) else "on the beach" if red > blue else "on a street"
        return f"there is something {place}"


files = {path.name: path for path in sorted((OUT / "images").iterdir())}
captions = dict(zip(files, captrial.caption(files.values(), GroundWatcher()), strict=True))
write_captions(OUT / "watcher.json", captions)
print(captrial.caption(files["0.png"], GroundWatcher()))

# %% [markdown]
# A competition between two others (made up: the first sentence of the truth, whole and cut short), decided already.

# %%
write_captions(OUT / "whole.json", {name: sentences[0] for name, sentences in truth.items()})
write_captions(OUT / "short.json", {name: " ".join(said[0].split()[:3]) for name, said in truth.items()})
(OUT / "labels.json").write_text(json.dumps({name: said[1:] for name, said in truth.items()}))
directory = OUT / "competition"
if directory.exists():
    competition = captrial.Competition.open(directory)
else:
    both = {"whole": OUT / "whole.json", "short": OUT / "short.json"}
    competition = captrial.Competition.create(directory, both, images=OUT / "images")
    competition.select(SelectionSettings(BUDGET, BUDGET))

# %% [markdown]
# The new model joins: what was selected and labelled stays, its own pairs are added.

# %%
before = set(competition.selected_images())
if "watcher" not in competition.models:
    competition.add_model("watcher", OUT / "watcher.json")
    competition.select()
print(f"{len(set(competition.selected_images()) - before)} new images to label")
for row in competition.rank("cider", competition.labels(OUT / "labels.json")).rows():
    interval = (
        f"[{row['low']:.3f}, {row['high']:.3f}]" if row["low"] is not None else "(too few labels for an interval)"
    )
    score = f"{row['score']:.3f}" if row["score"] is not None else "needs labels of its own"
    print(f"{row['rank'] or '-'}. {row['model']:8} {score} {interval}")

# %% [markdown]
# It gives no gradients, but covering parts of an image shows what its words hang on.

# %%
explanation = captrial.explain(GroundWatcher(), files["0.png"], method="occlusion")
print(explanation.caption, explanation.to_numpy().shape)
