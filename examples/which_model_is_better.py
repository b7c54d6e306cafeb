# %% [markdown]
# # Which of my two models is better on my images?
# You have captions of both for many images and can label few. The images on which the two differ most decide.
#
# Here the images are rendered and the two models are made up: each repeats a true sentence and gets some words wrong,
# the one more often than the other. With your own models there are only their two caption files.

# %%
import json
import random
from pathlib import Path

from PIL import Image

import captrial
from captrial.compete import SelectionSettings
from captrial.compete.analysis.flip import flip_report
from captrial.report.competition_page import write_competition_report
from captrial.toyworld import ToyWorld

OUT, IMAGES, BUDGET = Path("out/which"), 120, 20
(OUT / "images").mkdir(parents=True, exist_ok=True)
world, truth = ToyWorld(size=160), {}
for number in range(IMAGES):
    image = world.render("wild", number)
    Image.fromarray(image.pixels).save(OUT / "images" / f"{number}.png")
    truth[f"{number}.png"] = list(image.sample.captions)

# %%
chance, files = random.Random(0), {}
for model, mistakes in (("ours", 0.15), ("theirs", 0.35)):
    said = {
        name: " ".join("thing" if chance.random() < mistakes else word for word in sentences[0].split())
        for name, sentences in truth.items()
    }
    files[model] = OUT / f"{model}.json"
    files[model].write_text(json.dumps(said))

# %% [markdown]
# The competition is a directory. It selects the images that are worth a label.

# %%
directory = OUT / "competition"
if directory.exists():
    competition = captrial.Competition.open(directory)
else:
    competition = captrial.Competition.create(directory, files, images=OUT / "images")
    competition.select(SelectionSettings(BUDGET, BUDGET))
waiting = competition.images_to_label()
print(f"{len(waiting)} of {IMAGES} images to label, first {waiting[:3]}")

# %% [markdown]
# Now people write what is on those images: `captrial annotate serve out/which/competition`, or any file of reference
# captions. Here the rendered world's own sentences are the labels.

# %%
labels_file = OUT / "labels.json"
labels_file.write_text(json.dumps({name: truth[name][1:] for name in competition.selected_images()}))
labels = competition.labels(labels_file)
ranking = competition.rank("cider", labels)
for row in ranking.rows():
    print(f"{row['rank']}. {row['model']:7} {row['score']:.3f}, first in {row['first']:.0%} of the replicates")
print(flip_report(competition.scorer(labels).score("cider")).summary())
print(write_competition_report(competition, labels, ["cider"], OUT / "report"))
