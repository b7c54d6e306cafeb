"""Show-Attend-Tell's attention by another program: it knows numpy and the paper's equations, and nothing of captrial.

    python numpy_show_attend_tell.py FOLDER

FOLDER has `weights.npz`, `words.json` (in the order of the rows of the embedding, after the four special ones),
`features.npz` (an array (cells, width) an image, row by row) and `captions.json` ({key: text}, a key being the image's
name, with `#` and a number behind for a reference). Writes `maps.npz`: an array (words, rows, columns) a key.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np


def linear(name, x):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def attention(cells, caption):
    """A map (cells,) before each word of the caption, whose words are forced."""
    start = np.maximum(linear("init.0", cells.mean(0)), 0)
    hidden, memory = np.tanh(linear("init_hidden", start)), np.tanh(linear("init_cell", start))
    projected = np.tanh(linear("element.1", linear("element.0", cells)))
    word, maps = np.zeros(weights["words.weight"].shape[1]), []
    for text in caption:
        energy = linear("attention", np.tanh(projected + linear("query", hidden)))[:, 0]
        alpha = np.exp(energy - energy.max())
        alpha /= alpha.sum()
        maps.append(alpha)
        context = sigmoid(linear("selector", hidden)) * (alpha @ cells)
        gates = np.concatenate([word, context]) @ weights["lstm.cell.weight_ih"].T + weights["lstm.cell.bias_ih"]
        # The word that was read goes into the state with which the next word's map is computed.
        gates = gates + hidden @ weights["lstm.cell.weight_hh"].T + weights["lstm.cell.bias_hh"]
        let_in, forget, new, out = np.split(gates, 4)
        memory = sigmoid(forget) * memory + sigmoid(let_in) * np.tanh(new)
        hidden = sigmoid(out) * np.tanh(memory)
        word = weights["words.weight"][ids.get(text, 3)]
    return np.stack(maps)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    weights = {name: array.astype(np.float64) for name, array in np.load(folder / "weights.npz").items()}
    ids = {word: 4 + place for place, word in enumerate(json.loads((folder / "words.json").read_text()))}
    features = np.load(folder / "features.npz")
    arrays = {}
    for key, caption in json.loads((folder / "captions.json").read_text()).items():
        cells = features[key.partition("#")[0]].astype(np.float64)
        side = round(len(cells) ** 0.5)
        words = re.findall(r"[a-z0-9-]+", caption.lower())
        arrays[key] = attention(cells, words).reshape(-1, side, side)
    np.savez(folder / "maps.npz", **arrays)
    assert not {"captrial", "torch"} & sys.modules.keys()
