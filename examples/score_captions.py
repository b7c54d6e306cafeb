# %% [markdown]
# # Score captions that you have
# The numbers of the COCO toolkit, without Java, with intervals and paired tests.

# %%
import captrial

references = {
    "1": ["a brown dog runs through the grass", "a dog is running on a lawn"],
    "2": ["two children play on a swing", "a boy and a girl are on the swings"],
    "3": ["a man rides a motorcycle down a road", "someone on a motorbike on the street"],
    "4": ["a red bus waits at a stop", "a bus is standing at the bus stop"],
}
systems = {
    "mine": {"1": "a brown dog runs on the grass", "2": "two children on a swing", "3": "a man on a motorcycle",
             "4": "a red bus at a stop"},
    "theirs": {"1": "a dog", "2": "a man on a swing", "3": "a man rides a horse down a road", "4": "a red car"},
}  # fmt: skip
table = captrial.score(systems, references, metrics=["bleu", "rouge", "cider", "spice"])
for name, scores in table.to_dict().items():
    print(name, {metric: round(value, 3) for metric, value in scores.items()})

# %% [markdown]
# Four images are few: see how wide the intervals are.

# %%
for name, intervals in table.intervals().items():
    print(name, "CIDEr between", round(intervals["cider"].low, 2), "and", round(intervals["cider"].high, 2))
for row in table.compare():
    if row.metric == "cider":
        print(f"{row.first} - {row.second}: {row.difference:+.2f}, p = {row.permutation_p:.3f}")

# %% [markdown]
# Every image's own scores, as a table that pandas, Polars and Arrow read.

# %%
print(table.per_image().select(["system", "image_id", "cider"]))

# %% [markdown]
# With files: `captrial score mine.json theirs.json --references refs.json`.
