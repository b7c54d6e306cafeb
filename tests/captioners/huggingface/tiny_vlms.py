"""Complete tiny VLMs, one a family: transformers' own classes, trained to caption a few toy images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image

from captioners.huggingface.tiny_checkpoints import (
    CHAT,
    SIDE,
    SIZES,
    VISION,
    Lesson,
    _learn,
    _padded,
    _stretch,
    _text,
    bytes_pairs,
)
from captrial.captioners.huggingface import HfCaptioner, HfOptions, load_transformers
from captrial.captioners.huggingface.image_tokens.text_stacks import continued, text_stack

LAYERS = {"num_hidden_layers": 2}
MIXING = ("attn.proj.", "attn.out_proj.", "attention.projection_layer.", "self_attn.projection.", ".conv1.", ".conv2.")
COUNT = 4  # images learnt
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


def qwen3_vl(folder: Path, told: Lesson) -> None:
    """Qwen3-VL: what a layer of the vision tower sees is also added behind the decoder's first layer."""
    vision = {"depth": 2, "hidden_size": 32, "out_hidden_size": 64, "num_heads": 2, "intermediate_size": 64}
    vision |= {"patch_size": 14, "deepstack_visual_indexes": [0], "num_position_embeddings": 64}
    kinds = transformers.Qwen3VLConfig, transformers.Qwen3VLForConditionalGeneration
    _qwen(folder, told, *kinds, "Qwen3VLProcessor", vision)


def _anyres(folder: Path, told: Lesson, name: str, vision: Any, tower: str) -> None:
    tokenizer = bytes_pairs(told.captions, extra_special_tokens={"image_token": "<image>"})
    tokenizer.chat_template = CHAT
    pinpoints = [[SIDE, SIDE], [SIDE, 2 * SIDE], [2 * SIDE, SIDE]]
    next_ = name == "LlavaNext"
    config = getattr(transformers, f"{name}Config")(
        vision_config=vision,
        text_config=(transformers.LlamaConfig if next_ else transformers.Qwen2Config)(
            **{**_text(tokenizer), **LAYERS}, max_position_embeddings=512
        ),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=pinpoints,
        vision_feature_layer=-1,
        vision_feature_select_strategy="default" if next_ else "full",
    )
    sides = {"height": SIDE, "width": SIDE}
    image_processor = getattr(transformers, f"{name}ImageProcessorPil")(
        size={"shortest_edge": SIDE} if next_ else sides,
        image_grid_pinpoints=pinpoints,
        **({"crop_size": sides} if next_ else {}),
    )
    processor = f'{{"processor_class": "{name}Processor", '
    processor += '"patch_size": 16, "num_additional_image_tokens": 1, ' if next_ else '"num_image_tokens": 16, '
    processor += f'"vision_feature_select_strategy": "{"default" if next_ else "full"}"}}'
    _save(
        folder, getattr(transformers, f"{name}ForConditionalGeneration")(config), image_processor, tokenizer, processor
    )


def llava_next(folder: Path, told: Lesson) -> None:
    """LLaVA-NeXT: the stretched image in 4 x 4 tokens, then one or two tiles with borders."""
    vision = transformers.CLIPVisionConfig(**{**VISION, "patch_size": 16}, projection_dim=64)
    _anyres(folder, told, "LlavaNext", vision, "clip")


def llava_onevision(folder: Path, told: Lesson) -> None:
    """LLaVA-OneVision: the same with a tower that has no class token."""
    vision = transformers.SiglipVisionConfig(**{**VISION, "patch_size": 16}, vision_use_head=False)
    _anyres(folder, told, "LlavaOnevision", vision, "siglip")


def internvl(folder: Path, told: Lesson) -> None:
    """InternVL: up to four tiles of 2 x 2 tokens and a thumbnail."""
    names = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>"}
    tokenizer = bytes_pairs(told.captions, extra_special_tokens={**names, "video_token": "<video>"})
    tokenizer.chat_template = CHAT.replace("<image>", "<IMG_CONTEXT>")
    vision = {**{name: VISION[name] for name in SIZES}, "image_size": [SIDE, SIDE], "patch_size": [16, 16]}
    config = transformers.InternVLConfig(
        vision_config=vision,
        text_config=transformers.Qwen2Config(**{**_text(tokenizer), **LAYERS}, max_position_embeddings=512),
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
        downsample_ratio=0.5,
    )
    image_processor = transformers.GotOcr2ImageProcessorPil(
        size={"height": SIDE, "width": SIDE}, crop_to_patches=True, max_patches=4
    )
    processor = '{"processor_class": "InternVLProcessor", "image_seq_length": 4}'
    _save(folder, transformers.InternVLForConditionalGeneration(config), image_processor, tokenizer, processor)


def _q_former(folder: Path, told: Lesson, name: str, text: Any) -> None:
    tokenizer = bytes_pairs(told.captions)
    former = {**SIZES, "num_hidden_layers": 2, "encoder_hidden_size": 64, "vocab_size": len(tokenizer)}
    config = getattr(transformers, f"{name}Config")(
        vision_config={
            **{n: VISION[n] for n in SIZES},
            "image_size": SIDE,
            "patch_size": 16,
            "initializer_range": 0.02,
        },
        qformer_config={**former, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        text_config=text(tokenizer),
        num_query_tokens=4,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    size = {"height": SIDE, "width": SIDE}
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config)
    torch.nn.init.normal_(model.query_tokens, std=0.5)
    for parameter in (*model.qformer.parameters(), model.language_projection.weight):
        if parameter.ndim > 1:  # as drawn by transformers, an image would change no word visibly
            torch.nn.init.normal_(parameter, std=0.15)
    processor = f'{{"processor_class": "{name}Processor", "num_query_tokens": 4}}'
    _save(folder, model, transformers.BlipImageProcessorPil(size=size), tokenizer, processor)
    if name == "InstructBlip":
        tokenizer.save_pretrained(folder / "qformer_tokenizer")


def _opt(tokenizer: Any) -> Any:
    sizes = {"hidden_size": 64, "ffn_dim": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "dropout": 0.0}
    ends = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    return transformers.OPTConfig(
        **sizes, **ends, vocab_size=len(tokenizer), max_position_embeddings=256, word_embed_proj_dim=64
    )


def _t5(tokenizer: Any) -> Any:
    sizes = {"d_model": 64, "d_ff": 64, "d_kv": 16, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    return transformers.T5Config(
        **sizes, **ends, vocab_size=len(tokenizer), decoder_start_token_id=tokenizer.pad_token_id
    )


def blip_2(folder: Path, told: Lesson) -> None:
    """BLIP-2 with OPT: 4 x 4 patches, of which a Q-Former makes four tokens."""
    _q_former(folder, told, "Blip2", _opt)


def instructblip(folder: Path, told: Lesson) -> None:
    """InstructBLIP with T5: the Q-Former reads the prompt, too, and an encoder reads its tokens."""
    _q_former(folder, told, "InstructBlip", _t5)


def paligemma(folder: Path, told: Lesson) -> None:
    """PaliGemma: no chat template; its prompt attends in both directions."""
    tokenizer = bytes_pairs(told.captions)
    config = transformers.PaliGemmaConfig(
        text_config={**_text(tokenizer), **LAYERS, "model_type": "gemma", "head_dim": 16},
        vision_config={**VISION, "patch_size": 16, "projection_dim": 64},
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        projection_dim=64,
    )
    image_processor = _stretch("SiglipImageProcessorPil")
    image_processor.image_seq_length = 16
    processor = '{"processor_class": "PaliGemmaProcessor"}'
    _save(folder, transformers.PaliGemmaForConditionalGeneration(config), image_processor, tokenizer, processor)


def gemma3(folder: Path, told: Lesson) -> None:
    """Gemma 3: patches pooled to 4 x 4 tokens, which attend to each other in both directions."""
    names = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    tokenizer = bytes_pairs(told.captions, extra_special_tokens=names)
    tokenizer.chat_template = CHAT.replace("<image>", "<start_of_image>")
    at = tokenizer.convert_tokens_to_ids
    config = transformers.Gemma3Config(
        text_config={**_text(tokenizer), **LAYERS, "head_dim": 16, "max_position_embeddings": 256},
        vision_config={**VISION, "patch_size": 8, "vision_use_head": False},
        mm_tokens_per_image=16,
        image_token_index=at("<image_soft_token>"),
        boi_token_index=at("<start_of_image>"),
        eoi_token_index=at("<end_of_image>"),
    )
    image_processor = transformers.Gemma3ImageProcessorPil(size={"height": SIDE, "width": SIDE})
    model = transformers.Gemma3ForConditionalGeneration(config)
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight, std=0.1)
    processor = '{"processor_class": "Gemma3Processor", "image_seq_length": 16}'
    _save(folder, model, image_processor, tokenizer, processor)


def florence2(folder: Path, told: Lesson) -> None:
    """Florence-2: an encoder reads a token of the whole image and 4 x 4 cells, a decoder writes."""
    tokenizer = bytes_pairs(told.captions, extra_special_tokens={"image_token": "<image>"})
    ends = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    text = {"d_model": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "encoder_layers": 2, "decoder_layers": 2}
    text |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "dropout": 0.0, "model_type": "bart"}
    config = transformers.Florence2Config(
        text_config={**text, **ends, "vocab_size": len(tokenizer), "decoder_start_token_id": tokenizer.eos_token_id},
        vision_config={
            "depths": [1, 1],
            "patch_size": [8, 2],
            "patch_stride": [8, 2],
            "patch_padding": [0, 0],
            "patch_prenorm": [False, True],
            "embed_dim": [32, 64],
            "num_heads": [2, 4],
            "num_groups": [2, 4],
            "window_size": 4,
            "projection_dim": 64,
            "drop_path_rate": 0.0,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    )
    size = {"height": SIDE, "width": SIDE}
    image_processor = transformers.CLIPImageProcessorPil(size=size, do_center_crop=False)
    image_processor.image_seq_length = 17
    model = transformers.Florence2ForConditionalGeneration(config)
    _save(folder, model, image_processor, tokenizer, '{"processor_class": "Florence2Processor"}')


VLMS: dict[str, Callable[[Path, Lesson], None]] = {
    "qwen2_5_vl": qwen2_5_vl,
    "qwen2_vl": qwen2_vl,
    "qwen3_vl": qwen3_vl,
    "smolvlm": smolvlm,
    "idefics3": idefics3,
    "llava": llava,
    "llava_next": llava_next,
    "llava_onevision": llava_onevision,
    "internvl": internvl,
    "blip-2": blip_2,
    "instructblip": instructblip,
    "gemma3": gemma3,
    "paligemma": paligemma,
    "florence2": florence2,
}


def make(name: str, folder: Path, told: Lesson, trained: bool = True) -> None:
    """A checkpoint of the family in `folder`, trained on the lesson's first images."""
    torch.manual_seed(0)
    VLMS[name](folder, told)
    if trained:
        captioner = load_transformers(str(folder), HfOptions())
        teach(captioner, told.images[:COUNT], told.captions[:COUNT], enough=0.05)
        captioner.model.save_pretrained(folder)


def teach(captioner: HfCaptioner, images: list[Image.Image], captions: list[str], **options: Any) -> None:
    """Fine-tune a model until it says the captions behind its prompt; all images must have one size."""
    model, tokenizer = captioner.model.requires_grad_(True), captioner.tokenizer
    inputs = captioner.prepare(images)
    said = [[*captioner.tokenize(text), tokenizer.eos_token_id] for text in captions]
    tokens, labels = _padded(tokenizer, said)
    read = forced_inputs(captioner, inputs, tokens)

    def loss() -> torch.Tensor:
        logits = model(**read, use_cache=False).logits[:, -tokens.shape[1] :]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    _learn(model, loss, **options)
    model.eval().requires_grad_(False)


def keep_places_apart(model: Any) -> None:
    """Switch off what carries information from one place to another in the vision tower: attention, convolutions."""
    silenced = 0
    for path, parameter in model.named_parameters():
        if ("vision" in path or "visual" in path) and any(part in path for part in MIXING):
            parameter.data.zero_()
            parameter.requires_grad_(False)
            silenced += 1
    assert silenced >= 2


def forced_inputs(captioner: HfCaptioner, inputs: dict[str, Any], tokens: torch.Tensor) -> dict[str, Any]:
    """The inputs of a whole model that reads `tokens` (rows, t) behind its prompt; its last t logits score them."""
    read = text_stack(captioner.model, inputs["input_ids"][0]).read(tokens)
    return {**inputs, **continued(captioner.model, inputs, read["input_ids"]), **read}
