# %% [markdown]
# # Explain a caption
# Where did the captioner look when it said each word, and are its nouns there?

# %%
from pathlib import Path

from skimage import data

import captrial

OUT = Path("out")
OUT.mkdir(exist_ok=True)
photo = Path(data.__file__).parent / "motorcycle_left.png"
captioner = captrial.load()
explanation = captrial.explain(captioner, photo)  # integrated gradients, complete to 1% a word
print(explanation.caption)
print(explanation.to_numpy().shape)  # words x visual elements (here the cells of a grid), all >= 0

# %% [markdown]
# A page to point at, numbers to keep, a figure for a notebook.

# %%
print(explanation.save(OUT / "explanation.html"))
explanation.save(OUT / "explanation.npz")
figure = explanation.show()

# %% [markdown]
# A verdict on every noun: labelled regions (here of the detector that comes with the package) say what the
# captioner looked at.

# %%
from captrial.attribution.page import write_page
from captrial.grounding.ground import ground_explanation
from captrial.grounding.score import Grounder
from captrial.vision.registry import load_detector

detector = load_detector("region-detector")
(regions,) = detector.detect([explanation.image])
grounded = ground_explanation(explanation, regions, Grounder(detector.labels))
for place, word in enumerate(explanation.words):
    print(f"{word:12} {grounded.grounding.labels[place]:12} {grounded.verdict(place) or ''}")
write_page([grounded.view()], OUT / "grounded.html")

# %% [markdown]
# Why *this* word and not another? The lead of the one over the other is attributed. Any sentence can be explained,
# also one that the captioner would not say.

# %%
contrast = captrial.explain(captioner, photo, caption="a man rides a motorcycle", contrast={"motorcycle": "horse"})
cell = contrast.top(contrast.words.index("motorcycle"))
print("motorcycle, not horse, because of the part of the image at", contrast.attribution.boxes[cell].round(2))
