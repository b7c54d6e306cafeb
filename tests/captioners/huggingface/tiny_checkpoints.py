"""Complete transformers checkpoints, small enough to be made and fine-tuned here: weights, tokeniser, image processor.

Each is trained on 20 images of the toy world until greedy decoding says their captions word for word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor

from captrial.captioners.endpoint import PROMPT
from captrial.toyworld import ToyWorld

SIDE, PATCH, WIDTH, WORDS = 64, 32, 64, 160
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[DEC]", "<image>"]
CHAT = (
    "{% for message in messages %}{{ message['role'] }}: {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %} {{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %} assistant:{% endif %}"
)
SIZES = {"hidden_size": WIDTH, "intermediate_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 4}
VISION = {**SIZES, "image_size": SIDE, "patch_size": PATCH}
Loss = Callable[[], Tensor]


@dataclass(frozen=True)
class Lesson:
    """Images and what is to be said about them."""

    images: list[Image.Image]
    captions: list[str]


def lesson(count: int = 20) -> Lesson:
    """Toy images, each with one caption of its own, lower case and without punctuation."""
    world, images, captions = ToyWorld(size=SIDE), [], []
    number = 0
    while len(captions) < count:
        toy = world.render("train", number)
        text = toy.sample.captions[0].lower().replace(",", "").rstrip(".")
        if text not in captions:
            images.append(Image.fromarray(toy.pixels))
            captions.append(text)
        number += 1
    return Lesson(images, captions)


def word_pieces(captions: Iterable[str]) -> Any:
    """A WordPiece tokeniser that splits most words, as BERT's: [CLS] ... [SEP]."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.train_from_iterator([*captions, PROMPT], trainers.WordPieceTrainer(vocab_size=WORDS, special_tokens=SPECIAL))
    ends = [(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return _fast(made, cls_token="[CLS]", sep_token="[SEP]", bos_token="[DEC]")


def bytes_pairs(captions: Iterable[str], **more: Any) -> Any:
    """A byte-level BPE tokeniser that splits most words, as GPT-2's."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=WORDS + 256, special_tokens=SPECIAL, initial_alphabet=alphabet)
    made.train_from_iterator([*captions, PROMPT], trainer)
    return _fast(made, bos_token="[CLS]", eos_token="[SEP]", **more)


def _fast(tokenizer: Tokenizer, **special: Any) -> Any:
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=128, **special
    )


def _ids(tokenizer: Any) -> dict[str, int]:
    at = tokenizer.convert_tokens_to_ids
    return {"pad_token_id": at("[PAD]"), "bos_token_id": at("[DEC]"), "sep_token_id": at("[SEP]")}


def _stretch(kind: str) -> Any:
    """An image processor on Pillow that stretches images to the model's side."""
    size = {"height": SIDE, "width": SIDE}
    return getattr(transformers, kind)(size=size, image_mean=[0.5] * 3, image_std=[0.5] * 3)


def _padded(tokenizer: Any, rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Ids padded on the right, and labels that ignore the padding."""
    length = max(map(len, rows))
    ids = torch.tensor([row + [tokenizer.pad_token_id] * (length - len(row)) for row in rows])
    real = torch.tensor([[place < len(row) for place in range(length)] for row in rows])
    return ids, ids.masked_fill(~real, -100)


def blip(folder: Path, told: Lesson) -> None:
    """BLIP with two layers each."""
    tokenizer = word_pieces(told.captions)
    text = {**SIZES, **_ids(tokenizer), "vocab_size": len(tokenizer), "max_position_embeddings": 64}
    text |= {"encoder_hidden_size": WIDTH, "eos_token_id": tokenizer.sep_token_id}
    text |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "label_smoothing": 0.0}
    config = transformers.BlipConfig(text_config=text, vision_config=VISION)
    model = transformers.BlipForConditionalGeneration(config)
    processor = transformers.BlipProcessor(_stretch("BlipImageProcessorPil"), tokenizer)
    start = [tokenizer.bos_token_id]
    ids, labels = _padded(tokenizer, [start + tokenizer(text)["input_ids"][1:] for text in told.captions])
    pixels = processor.image_processor(told.images, return_tensors="pt")["pixel_values"]
    _learn(model, lambda: model(pixel_values=pixels, input_ids=ids, labels=labels).loss)
    _save(folder, model, processor)


def git(folder: Path, told: Lesson) -> None:
    """GIT with two layers each, its images cropped to the middle as CLIP's are."""
    tokenizer = word_pieces(told.captions)
    sizes = {**SIZES, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = transformers.GitConfig(
        vision_config=VISION,
        vocab_size=len(tokenizer),
        max_position_embeddings=64,
        **sizes,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
    )
    model = transformers.GitForCausalLM(config)
    image_processor = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
    )
    processor = transformers.GitProcessor(image_processor, tokenizer)
    ids, labels = _padded(tokenizer, [tokenizer(text)["input_ids"] for text in told.captions])
    pixels = image_processor(told.images, return_tensors="pt")["pixel_values"]
    _learn(model, lambda: model(pixel_values=pixels, input_ids=ids, labels=labels).loss)
    _save(folder, model, processor)


def vit_gpt2(folder: Path, told: Lesson) -> None:
    """A ViT and a GPT-2 of two layers each; no processor class, as in the well-known ViT-GPT2 checkpoints."""
    tokenizer = bytes_pairs(told.captions)
    drop = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    decoder = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_embd=WIDTH, n_layer=1, n_head=4, n_positions=64, **drop, **ends
    )
    encoder = transformers.ViTConfig(**VISION, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id = tokenizer.bos_token_id, tokenizer.pad_token_id
    config.eos_token_id = tokenizer.eos_token_id
    model = transformers.VisionEncoderDecoderModel(config)
    image_processor = _stretch("ViTImageProcessorPil")
    _, labels = _padded(tokenizer, [[*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text in told.captions])
    pixels = image_processor(told.images, return_tensors="pt")["pixel_values"]
    _learn(model, lambda: model(pixel_values=pixels, labels=labels).loss)
    _save(folder, model, image_processor, tokenizer)


def llava(folder: Path, told: Lesson) -> None:
    """LLaVA: a CLIP tower, a projector and a Llama, asked by a chat template."""
    tokenizer = bytes_pairs(told.captions, extra_special_tokens={"image_token": "<image>"})
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    text = transformers.LlamaConfig(
        **SIZES, vocab_size=len(tokenizer), max_position_embeddings=256, pad_token_id=tokenizer.pad_token_id, **ends
    )
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**VISION, projection_dim=WIDTH),
        text_config=text,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_select_strategy="default",
        vision_feature_layer=-1,
    )
    model = transformers.LlavaForConditionalGeneration(config)
    image_processor = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
    )
    options = {"patch_size": PATCH, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    processor = transformers.LlavaProcessor(image_processor, tokenizer, chat_template=CHAT, **options)
    content = [{"type": "image"}, {"type": "text", "text": PROMPT}]
    asked = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    shown = processor(text=[asked] * len(told.images), images=told.images, return_tensors="pt")
    prompt = shown["input_ids"][0].tolist()
    said = [[*tokenizer(f" {text}")["input_ids"], tokenizer.eos_token_id] for text in told.captions]
    ids, labels = _padded(tokenizer, [prompt + row for row in said])
    labels[:, : len(prompt)] = -100
    pixels = shown["pixel_values"]
    _learn(model, lambda: model(pixel_values=pixels, input_ids=ids, labels=labels).loss)
    _save(folder, model, processor)


def qwen2_vl(folder: Path, told: Lesson) -> None:
    """Qwen2-VL, untrained: images become as many tokens as their size asks for; its processor wants video, too."""
    tokenizer = bytes_pairs(told.captions, extra_special_tokens={"image_token": "<|image_pad|>"})
    names = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer.add_tokens(names, special_tokens=True)
    tokenizer.chat_template = CHAT.replace("<image>", "<|vision_start|><|image_pad|><|vision_end|>")
    fields = ["vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id"]
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    config = transformers.Qwen2VLConfig(
        text_config={**_text(tokenizer), "rope_parameters": rope},
        vision_config={"depth": 1, "embed_dim": 32, "hidden_size": WIDTH, "num_heads": 2, "mlp_ratio": 2},
        **dict(zip(fields, tokenizer.convert_tokens_to_ids(names), strict=True)),
    )
    image_processor = transformers.Qwen2VLImageProcessorPil(
        size={"shortest_edge": 28 * 28 * 2, "longest_edge": 28 * 28 * 16}
    )
    _save(folder, transformers.Qwen2VLForConditionalGeneration(config), image_processor, tokenizer)
    (folder / "processor_config.json").write_text('{"processor_class": "Qwen2VLProcessor"}')


def smolvlm(folder: Path, told: Lesson) -> None:
    """SmolVLM, untrained: large images are cut into tiles."""
    tokenizer = bytes_pairs(told.captions)
    tiles = [f"<row_{row}_col_{column}>" for row in range(1, 4) for column in range(1, 4)]
    names = ["<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *tiles]
    tokenizer.add_tokens(names, special_tokens=True)
    tokenizer.chat_template = CHAT
    config = transformers.SmolVLMConfig(
        text_config={**_text(tokenizer), "model_type": "llama"},
        vision_config={**VISION, "patch_size": 16},
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    )
    image_processor = transformers.SmolVLMImageProcessorPil(
        size={"longest_edge": 2 * SIDE}, max_image_size={"longest_edge": SIDE}
    )
    _save(folder, transformers.SmolVLMForConditionalGeneration(config), image_processor, tokenizer)
    (folder / "processor_config.json").write_text('{"processor_class": "SmolVLMProcessor", "image_seq_len": 4}')


def paligemma(folder: Path, told: Lesson) -> None:
    """PaliGemma, untrained: no chat template."""
    tokenizer = bytes_pairs(told.captions)
    config = transformers.PaliGemmaConfig(
        text_config={**_text(tokenizer), "model_type": "gemma", "head_dim": 16},
        vision_config={**VISION, "projection_dim": WIDTH},
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        projection_dim=WIDTH,
    )
    image_processor = _stretch("SiglipImageProcessorPil")
    image_processor.image_seq_length = (SIDE // PATCH) ** 2
    _save(folder, transformers.PaliGemmaForConditionalGeneration(config), image_processor, tokenizer)
    (folder / "processor_config.json").write_text('{"processor_class": "PaliGemmaProcessor"}')


def _text(tokenizer: Any) -> dict[str, Any]:
    ends = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    return {**SIZES, **ends, "vocab_size": len(tokenizer), "num_key_value_heads": 2}


def _learn(model: Any, loss: Loss, steps: int = 400, enough: float = 0.02) -> None:
    """Adam on all images at once until the loss is small."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    model.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 20)
        optimizer.zero_grad()
        now = loss()
        now.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if float(now.detach()) < enough:
            return
    raise AssertionError(f"{type(model).__name__} did not learn its captions: loss {float(now.detach()):.3f}")


def _save(folder: Path, *parts: Any) -> None:
    for part in parts:
        part.save_pretrained(folder)


UNTRAINED: dict[str, Callable[[Path, Lesson], None]] = {
    "qwen2_vl": qwen2_vl,
    "smolvlm": smolvlm,
    "paligemma": paligemma,
}
MAKERS: dict[str, Callable[[Path, Lesson], None]] = {"blip": blip, "git": git, "vit_gpt2": vit_gpt2, "llava": llava}
