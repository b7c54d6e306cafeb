"""Complete tiny decoder-only VLMs, one a family: transformers' own classes, trained to caption ten toy images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image

from captioners.huggingface.tiny_checkpoints import CHAT, SIDE, VISION, Lesson, _learn, _text, bytes_pairs
from captrial.captioners.huggingface import HfCaptioner, HfOptions, load_transformers

LAYERS = {"num_hidden_layers": 2}
COUNT = 10  # images learnt
QWEN_TOKENS = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
QWEN_FIELDS = ["vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id"]


def _save(folder: Path, model: Any, image_processor: Any, tokenizer: Any, processor: str) -> None:
    for part in (model, image_processor, tokenizer):
        part.save_pretrained(folder)
    (folder / "processor_config.json").write_text(processor)


def _qwen(folder: Path, told: Lesson, config: Callable[..., Any], model: Any, processor: str, vision: Any) -> None:
    tokenizer = bytes_pairs(told.captions, extra_special_tokens={"image_token": "<|image_pad|>"})
    tokenizer.add_tokens(QWEN_TOKENS, special_tokens=True)
    tokenizer.chat_template = CHAT.replace("<image>", "<|vision_start|><|image_pad|><|vision_end|>")
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    made = config(
        text_config={**_text(tokenizer), **LAYERS, "rope_parameters": rope},
        vision_config=vision,
        **dict(zip(QWEN_FIELDS, tokenizer.convert_tokens_to_ids(QWEN_TOKENS), strict=True)),
    )
    side = vision["patch_size"] * 2
    image_processor = transformers.Qwen2VLImageProcessorPil(
        size={"shortest_edge": side * side * 4, "longest_edge": side * side * 64}, patch_size=vision["patch_size"]
    )
    _save(folder, model(made), image_processor, tokenizer, f'{{"processor_class": "{processor}"}}')


def qwen2_vl(folder: Path, told: Lesson) -> None:
    """Qwen2-VL: patches of 14 pixels, four of them a token."""
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2, "patch_size": 14}
    kinds = transformers.Qwen2VLConfig, transformers.Qwen2VLForConditionalGeneration
    _qwen(folder, told, *kinds, "Qwen2VLProcessor", vision)


def qwen2_5_vl(folder: Path, told: Lesson) -> None:
    """Qwen2.5-VL: one layer attends in windows of 2 x 2 tokens, which reorder them, one to the whole image."""
    vision = {"depth": 2, "hidden_size": 32, "out_hidden_size": 64, "num_heads": 2, "intermediate_size": 64}
    vision |= {"patch_size": 14, "window_size": 56, "fullatt_block_indexes": [1]}
    kinds = transformers.Qwen2_5_VLConfig, transformers.Qwen2_5_VLForConditionalGeneration
    _qwen(folder, told, *kinds, "Qwen2_5_VLProcessor", vision)


def _idefics3(folder: Path, told: Lesson, name: str, side: int = SIDE) -> None:
    tokenizer = bytes_pairs(told.captions)
    tiles = [f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)]
    names = ["<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *tiles]
    tokenizer.add_tokens(names, special_tokens=True)
    tokenizer.chat_template = CHAT
    config = getattr(transformers, f"{name}Config")(
        text_config={**_text(tokenizer), **LAYERS, "model_type": "llama"},
        vision_config={**VISION, "patch_size": 16},
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    )
    image_processor = getattr(transformers, f"{name}ImageProcessorPil")(
        size={"longest_edge": 3 * side}, max_image_size={"longest_edge": side}
    )
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config)
    _save(folder, model, image_processor, tokenizer, f'{{"processor_class": "{name}Processor", "image_seq_len": 4}}')


def smolvlm(folder: Path, told: Lesson) -> None:
    """SmolVLM: the longest side becomes three tiles, each 2 x 2 tokens, and a thumbnail follows."""
    _idefics3(folder, told, "SmolVLM")


def idefics3(folder: Path, told: Lesson) -> None:
    """Idefics3, the same layout."""
    _idefics3(folder, told, "Idefics3")


def llava(folder: Path, told: Lesson) -> None:
    """LLaVA: the centre of the image in 4 x 4 tokens."""
    tokenizer = bytes_pairs(told.captions, extra_special_tokens={"image_token": "<image>"})
    tokenizer.chat_template = CHAT
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**{**VISION, "patch_size": 16}, projection_dim=64),
        text_config=transformers.LlamaConfig(**{**_text(tokenizer), **LAYERS}, max_position_embeddings=256),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_select_strategy="default",
        vision_feature_layer=-1,
    )
    image_processor = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
    )
    processor = '{"processor_class": "LlavaProcessor", "patch_size": 16, "num_additional_image_tokens": 1, '
    processor += '"vision_feature_select_strategy": "default"}'
    _save(folder, transformers.LlavaForConditionalGeneration(config), image_processor, tokenizer, processor)


VLMS: dict[str, Callable[[Path, Lesson], None]] = {
    "qwen2_5_vl": qwen2_5_vl,
    "qwen2_vl": qwen2_vl,
    "smolvlm": smolvlm,
    "idefics3": idefics3,
    "llava": llava,
}


def make(name: str, folder: Path, told: Lesson, trained: bool = True) -> None:
    """A checkpoint of the family in `folder`, trained on the lesson's first images."""
    torch.manual_seed(0)
    VLMS[name](folder, told)
    if trained:
        captioner = load_transformers(str(folder), HfOptions())
        teach(captioner, told.images[:COUNT], told.captions[:COUNT])
        captioner.model.save_pretrained(folder)


def teach(captioner: HfCaptioner, images: list[Image.Image], captions: list[str], **options: Any) -> None:
    """Fine-tune a model until it says the captions behind its prompt; all images must have one size."""
    model, tokenizer = captioner.model.requires_grad_(True), captioner.tokenizer
    inputs = captioner.prepare(images)
    said = [[*captioner.tokenize(text), tokenizer.eos_token_id] for text in captions]
    longest = max(map(len, said))
    padded = torch.tensor([row + [tokenizer.pad_token_id] * (longest - len(row)) for row in said])
    real = torch.tensor([[place < len(row) for place in range(longest)] for row in said])
    prompt = inputs["input_ids"]
    labels = torch.cat([torch.full_like(prompt, -100), padded.masked_fill(~real, -100)], 1)
    for name, value in inputs.items():
        if value.shape == prompt.shape:
            more = padded if name == "input_ids" else value[:, -1:].expand(-1, longest)
            inputs[name] = torch.cat([value, more], 1)
    _learn(model, lambda: model(**inputs, labels=labels, use_cache=False).loss, **options)
    model.eval().requires_grad_(False)
