"""Train the small checkpoint of this folder: a Llama on the prose of the repository's documentation.

    pip install torch transformers tokenizers
    python examples/llm/train.py [--steps 2000] [--write examples/llm/small]

The folder gets `config.json`, `model.safetensors` (bf16) and `tokenizer.json`, as `transformers` writes them.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).resolve().parent
END = "<|end|>"
"""Token after each document."""

LEARNING_RATE = 3e-3
"""Peak of the learning rate, see `train`."""

CONFIG = LlamaConfig(
    vocab_size=1024, hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-5, tie_word_embeddings=True,
    bos_token_id=0, eos_token_id=0,
)  # fmt: skip
"""The model that is trained: 870,000 weights, 1.7 MB in bf16."""


def documents(root: Path) -> Iterator[str]:
    """Yield the paragraphs of each Markdown file, each on one line: no code, tables, lists of names or links."""
    for path in sorted(root.rglob("*.md")):
        if any(part.startswith(".") or part == "build" for part in path.relative_to(root).parts):
            continue
        text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)  # the texts of links
        blocks = [block for block in re.split(r"\n\s*\n", text) if not block.lstrip().startswith(("|", "<", "!"))]
        # Lines of a paragraph are joined, but items of lists keep lines of their own.
        paragraphs = [re.sub(r"\s*\n(?!\s*(?:[-*]|\d+\.) )\s*", " ", block).strip() for block in blocks]
        yield "\n".join(paragraph for paragraph in paragraphs if paragraph)


def tokenizer_of(texts: list[str]) -> Tokenizer:
    """Return a byte-level BPE tokenizer with the vocabulary size of the configuration."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=CONFIG.vocab_size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def train(model: LlamaForCausalLM, tokens: torch.Tensor, steps: int, length: int = 256, batch: int = 4) -> None:
    """Train with AdamW on random windows of the tokens, `batch` windows of `length` tokens in a step.

    The learning rate rises for 50 steps, and then falls to zero. tokens: i64[n], all documents one after the other.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.05, betas=(0.9, 0.98))
    average = 0.0  # of the loss, over about the last 50 steps
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min((step + 1) / 50, 1 - step / steps)
        starts = torch.randint(len(tokens) - length, (batch,))
        windows = torch.stack([tokens[start : start + length] for start in starts])
        loss = model(input_ids=windows, labels=windows).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average += (loss.item() - average) / min(step + 1, 50)
        if step % 50 == 49:
            print(f"step {step + 1}: loss {average:.3f}", flush=True)


def main() -> None:
    """Train tokenizer and model on the documentation, and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--write", type=Path, default=HERE / "small")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    texts = list(documents(HERE.parents[1]))
    tokenizer = tokenizer_of(texts)
    tokens = torch.tensor([id for text in texts for id in [*tokenizer.encode(text).ids, tokenizer.token_to_id(END)]])
    model = LlamaForCausalLM(CONFIG)
    print(f"{len(tokens):,} tokens, {model.num_parameters():,} parameters")
    train(model, tokens, arguments.steps)
    model.to(torch.bfloat16).save_pretrained(arguments.write)
    (arguments.write / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save(str(arguments.write / "tokenizer.json"))
    print(f"wrote {arguments.write}: {sorted(path.name for path in arguments.write.iterdir())}")


if __name__ == "__main__":
    main()
