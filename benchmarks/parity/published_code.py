"""Imported checkpoints beside the code that they were published with: log-probabilities of forced captions.

python -m benchmarks.parity.published_code CODE     a folder with clones of the projects under their names on GitHub:
                                                    meshed-memory-transformer, object_relation_transformer, AoANet,
                                                    image-captioning, ImageCaptioning.pytorch

Each project's own model is made with small sizes and random weights, its `state_dict` saved and imported, and both
read the same captions of the same random regions. The published weights themselves are not needed, and were not met.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
import types
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from captrial.captioners.published import PUBLISHED, import_checkpoint
from captrial.language.vocabulary import BOS, EOS, UNK
from captrial.vision.features.visual_features import Features

WORDS = ["a", "dog", "cat", "on", "UNK"]
SPECIAL_WORDS = ["<unk>", "<pad>", "<bos>", "<eos>", "a", "dog", "cat", "on"]
FOLDERS = {
    "m2": "meshed-memory-transformer",
    "ort": "object_relation_transformer",
    "aoa": "AoANet",
    "x_lan": "image-captioning",
    **dict.fromkeys(("att2in", "top_down", "transformer"), "ImageCaptioning.pytorch"),
}
WIDTH, FEATURES, REGIONS = 32, 12, 5
Made = tuple[
    Any, Callable[[Tensor, Tensor, Tensor], Tensor]
]  # their model; features, boxes, tokens -> log-probabilities


def options(**more: Any) -> Namespace:
    """The settings that Luo's code and its descendants ask for."""
    return Namespace(
        vocab_size=len(WORDS), vocab={str(place): word for place, word in enumerate(WORDS, 1)}, bos_idx=0, eos_idx=0,
        input_encoding_size=WIDTH, rnn_size=WIDTH, num_layers=2, drop_prob_lm=0.5, seq_length=16, max_length=20,
        fc_feat_size=FEATURES, att_feat_size=FEATURES, att_hid_size=24, use_bn=0, **more,
    )  # fmt: skip


def recurrent(model: Any) -> Made:
    """A model of Luo's interface, which reads the mean of the regions beside them."""

    def score(regions: Tensor, boxes: Tensor, tokens: Tensor) -> Tensor:
        mask = torch.ones(regions.shape[:2])
        read = torch.cat([tokens, tokens.new_ones(len(tokens), 1)], 1)  # older code leaves the last one out
        found: Tensor = model(regions.mean(1), regions, read, mask)[:, : tokens.shape[1]]
        return found

    return model.eval(), score


def m2() -> Made:
    """Their Transformer with a memory of three slots."""
    from models.transformer import MemoryAugmentedEncoder, MeshedDecoder, ScaledDotProductAttentionMemory, Transformer  # type: ignore[import-not-found]

    sizes = {"d_model": WIDTH, "d_k": WIDTH // 8, "d_v": WIDTH // 8, "h": 8, "d_ff": 48}
    memory = {"attention_module": ScaledDotProductAttentionMemory, "attention_module_kwargs": {"m": 3}}
    encoder = MemoryAugmentedEncoder(3, 0, d_in=FEATURES, **sizes, **memory)
    model = Transformer(2, encoder, MeshedDecoder(len(SPECIAL_WORDS), 54, 3, 1, **sizes)).eval()
    return model, lambda regions, boxes, tokens: model(regions, tokens)


def ort() -> Made:
    """Their relation transformer on relative boxes."""
    from models import RelationTransformerModel

    opt = options()
    opt.rnn_size = 48
    model = (
        RelationTransformerModel.RelationTransformerModel(opt)
        if isinstance(RelationTransformerModel, types.ModuleType)
        else RelationTransformerModel(opt)
    )

    def score(regions: Tensor, boxes: Tensor, tokens: Tensor) -> Tensor:
        mask = torch.ones(regions.shape[:2])
        read = torch.cat([tokens, tokens.new_ones(len(tokens), 1)], 1)
        found: Tensor = model(regions.mean(1), regions, boxes, read, mask)[:, : tokens.shape[1]]
        return found

    return model.eval(), score


def aoa() -> Made:
    """The settings of their training script."""
    from models import AoAModel

    chosen = {"refine": 1, "refine_aoa": 1, "use_ff": 0, "decoder_type": "AoA", "use_multi_head": 2, "num_heads": 8}
    return recurrent(AoAModel(options(**chosen, multi_head_scale=1, mean_feats=1, ctx_drop=1, dropout_aoa=0.3)))


def x_lan() -> Made:
    """Their configuration of X-LAN, smaller."""
    from lib.config import cfg  # type: ignore[import-not-found]
    from models import XLAN

    model, bilinear = cfg.MODEL, cfg.MODEL.BILINEAR
    model.VOCAB_SIZE, model.WORD_EMBED_DIM, model.WORD_EMBED_ACT, model.RNN_SIZE = len(WORDS), WIDTH, "CELU", WIDTH
    model.ATT_FEATS_DIM, model.ATT_FEATS_EMBED_DIM, model.ATT_FEATS_EMBED_ACT = FEATURES, WIDTH, "CELU"
    model.GVFEAT_EMBED_DIM, model.GVFEAT_EMBED_ACT, model.DROPOUT_GV_EMBED = -1, "NONE", 0.0
    model.DROPOUT_WORD_EMBED = model.DROPOUT_ATT_EMBED = model.DROPOUT_LM = 0.5
    model.ATT_HIDDEN_SIZE, model.WORD_EMBED_NORM, model.ATT_FEATS_NORM = -1, False, False
    bilinear.DIM, bilinear.HEAD, bilinear.ACT, bilinear.ELU_ALPHA, bilinear.ATTTYPE = WIDTH, 4, "CELU", 1.3, "SCAtt"
    bilinear.ENCODE_LAYERS, bilinear.DECODE_LAYERS = 4, 1
    bilinear.ENCODE_ATT_MID_DIM = bilinear.DECODE_ATT_MID_DIM = [8, 6, 8]
    bilinear.ENCODE_BLOCK, bilinear.DECODE_BLOCK = "LowRankBilinearEnc", "LowRankBilinearDec"
    made = XLAN().eval()

    def score(regions: Tensor, boxes: Tensor, tokens: Tensor) -> Tensor:
        names = cfg.PARAM
        cfg.DATA_LOADER.SEQ_PER_IMG = 1
        given = {names.INPUT_SENT: tokens, names.GLOBAL_FEAT: torch.zeros(len(regions), 1), names.ATT_FEATS: regions}
        found: Tensor = made(**given, **{names.ATT_FEATS_MASK: torch.ones(regions.shape[:2])}).log_softmax(-1)
        return found

    return made, score


def att2in() -> Made:
    """Luo's Att2in2."""
    from captioning.models.AttModel import Att2in2Model  # type: ignore[import-not-found]

    return recurrent(Att2in2Model(options()))


def top_down() -> Made:
    """Luo's Up-Down."""
    from captioning.models.AttModel import UpDownModel

    return recurrent(UpDownModel(options()))


def transformer() -> Made:
    """Luo's Transformer."""
    from captioning.models.TransformerModel import TransformerModel

    return recurrent(TransformerModel(options(N_enc=2, N_dec=2, d_model=WIDTH, d_ff=48, num_att_heads=8, dropout=0.1)))


def compare(kind: str, code: Path) -> float:
    """The largest difference of a log-probability."""
    sys.path.insert(0, str(code / FOLDERS[kind]))
    _stand_in()
    torch.manual_seed(0)
    model, score = globals()[kind]()
    for parameter in model.parameters():  # biases that are not zero, as after training
        if parameter.ndim == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    special = kind == "m2"
    words = SPECIAL_WORDS if special else ["", *WORDS]
    regions, corners = torch.randn(2, REGIONS, FEATURES), torch.rand(2, REGIONS, 2, 2).sort(2).values
    tokens = torch.tensor([[2 if special else 0, 4, 2 if not special else 5, 3 if not special else 6]]).expand(2, -1)
    with torch.no_grad():
        theirs = score(regions, corners.flatten(2), tokens)
        with tempfile.TemporaryDirectory() as folder:
            weights, vocabulary = Path(folder) / "model.pth", Path(folder) / "words.json"
            content = model.state_dict()
            torch.save({"state_dict": content} if special else content, weights)
            vocabulary.write_text(json.dumps(words if special else WORDS))
            imported = import_checkpoint(kind, weights, vocabulary)
        own = imported.vocabulary
        ids = [EOS if word in ("", "<eos>") else UNK if word in ("UNK", "<unk>") else own[word] for word in words]
        read = torch.tensor([[BOS, *(ids[row] for row in tokens[0, 1:].tolist())]])
        features = Features(regions, torch.ones(2, REGIONS, dtype=torch.bool), corners.flatten(2))
        ours = imported.captioner(features, read.expand(2, 1, -1)).logits[:, 0].log_softmax(-1)
    rows = [row for row, word in enumerate(words) if word not in ("<pad>", "<bos>")]
    if special:  # they score padding and the beginning, too
        return float((theirs - _in_their_order(ours, ids, words)).abs().max())
    return float((theirs[..., rows] - ours[..., [ids[row] for row in rows]]).abs().max())


def _in_their_order(ours: Tensor, ids: list[int], words: list[str]) -> Tensor:
    places = {"<pad>": 0, "<bos>": 1}
    return ours[..., [places.get(word, number) for word, number in zip(words, ids, strict=True)]]


def _stand_in() -> None:
    """For a GPU, and for libraries that the projects import and their models do not use."""
    torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign,assignment]

    class EasyDict(dict):  # type: ignore[type-arg]
        __getattr__ = dict.__getitem__
        __setattr__ = dict.__setitem__  # type: ignore[assignment]

    parts = {"easydict": {"EasyDict": EasyDict}, "six": {"PY3": True}, "six.moves": {"cPickle": pickle}}
    for name, content in parts.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        sys.modules.setdefault(name, module)


def main() -> None:
    """One process a kind: the projects' packages have the same names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("code", type=Path)
    parser.add_argument("--kind", choices=list(PUBLISHED))
    chosen = parser.parse_args()
    if chosen.kind:
        print(f"{chosen.kind}: largest difference of a log-probability {compare(chosen.kind, chosen.code):.1e}")
        return
    for kind in PUBLISHED:
        subprocess.run(
            [sys.executable, "-m", "benchmarks.parity.published_code", chosen.code, "--kind", kind], check=False
        )


if __name__ == "__main__":
    main()
