"""Starling's tokenizers beside Hugging Face's: identical ids, text back, files read both ways, and MB/s on one thread.

    tokenizers_compare.py compare STARLING TEXT DIR    what tests/figures/peers/tokenizers.sh runs
    tokenizers_compare.py record TEXT DIR              writes tests/runtime/text/tokenizer_*.json, from which the tests take ids
"""
import json
import os
import random
import subprocess
import sys
import time
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import tokenizers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ODD = [
    "It's I'M we'll they'RE don't 'tis ''s 'll' she'd've",
    "  leading", "trailing   ", "\t\ttabs\t \n\n\n new\r\n lines \x0b\x0c\x85\xa0\u2003\u3000wide",
    "Ünïcödé naïve café e\u0301 a\u0300\u0316 İstanbul ǅ ß ẞ ﬁ Å Ω K",
    "日本語テキスト 中文，漢字。 한국어 문장 한글", "Привет, мир! ДОМ Ёлка й", "مرحبا بالعالم ١٢٣", "नमस्ते दुनिया क्षि", "שָׁלוֹם",
    "😀👍🏽👨‍👩‍👧‍👦🇩🇪 emoji", "½ ² Ⅷ ٣ ৫ 12345 3.14 1e-9", "\x01\x02\x7f\ufeff\u200b\u200d\u00ad\ufffd", "a" * 120, "-" * 70,
    " " * 90 + "x", "<|endoftext|> and <|endoftext|><|endoftext|> [MASK] [CLS][SEP] x[UNK]y", "\U00020000\U0002a6df\uf900\u3400",
    "don't_do that(x)==y; // `code` $^|~ 5€ £ ¢ §", "ab\u0300\u0301\u0327cd ọ̈ ệ", "\u1100\u1161\u11a8 각", "x \u302e\u0301\U0001d165",
    "In the beginning God created the heaven and the earth.", "",
]


def drawn(lines):
    """Lines of characters of many scripts, those on which Unicode's tables of all years agree: assigned in 3.2, and of the same category since
    (U+1734, for one, is no longer a nonspacing mark, which one library knows and the other does not)."""

    def settled(c):
        return unicodedata.ucd_3_2_0.category(c) != "Cn" and unicodedata.ucd_3_2_0.category(c) == unicodedata.category(c)

    draw = random.Random(1)
    ranges = [(32, 127), (0x80, 0x500), (0x900, 0x3100), (0x4E00, 0xA000), (0, 32), (32, 33), (0xAC00, 0xD7A4), (0x1D100, 0x1D200)]
    text = []
    for _ in range(lines):
        line = [chr(draw.randrange(*draw.choice(ranges))) for _ in range(draw.randrange(1, 60))]
        text.append("".join(c for c in line if settled(c)))
    return "\n".join(text)


def trained(files, bpe_size, wordpiece_size):
    """The three tokenizers, trained by Hugging Face's."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train(files, trainers.BpeTrainer(vocab_size=bpe_size, special_tokens=["<|endoftext|>"], show_progress=False,
                                         min_frequency=2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    result = {"bpe": bpe}
    for name, lower in (("uncased", True), ("cased", False)):
        w = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        w.normalizer = normalizers.BertNormalizer(lowercase=lower)
        w.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        w.decoder = decoders.WordPiece(cleanup=False)
        w.train(files, trainers.WordPieceTrainer(vocab_size=wordpiece_size, show_progress=False,
                                                 special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
        result[name] = w
    return result


def record(text, out):
    with open("/tmp/tokenizers.small", "w", newline="") as f:
        f.write("\n".join(ODD[:2] + ODD[4:9] + ODD[22:]) + "\n" + open(text).read()[:30000])
    made = trained(["/tmp/tokenizers.small"], 400, 350)
    os.remove("/tmp/tokenizers.small")
    for name, t in made.items():
        with open(f"{out}/tokenizer_{name}.json", "w") as f:
            json.dump(json.loads(t.to_str()), f, ensure_ascii=True, separators=(",", ":"))
            f.write("\n")
    with open(f"{out}/tokenizer_cases.json", "w") as f:
        cases = [{"text": s, **{name: t.encode(s, add_special_tokens=False).ids for name, t in made.items()},
                  **{name + "_text": t.decode(t.encode(s, add_special_tokens=False).ids, skip_special_tokens=False)
                     for name, t in made.items() if name != "bpe"}} for s in ODD]
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


def ids_of(path):
    import array
    data = open(path, "rb").read()
    header = array.array("i", data[:1024])
    ids = array.array("H" if header[0] == 20240520 else "I", data[1024:])
    assert len(ids) == header[2]
    return list(ids)


def starling(command, *arguments):
    done = subprocess.run([command, "tokenize", *arguments], stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"starling tokenize {' '.join(arguments)} failed")
    return done.stdout


def compare(command, text, out):
    number, failed = 0, False

    def report(right, what):
        nonlocal number, failed
        number += 1
        failed |= not right
        print(f"{'ok' if right else 'not ok'} {number} - {what}", flush=True)

    odd, learnt = f"{out}/odd.txt", f"{out}/learnt.txt"  # training is slow where words are long
    with open(odd, "w", newline="") as f:
        f.write("\n".join(ODD) + "\n\0\n" + "a" * 20000 + " " * 20000 + "\n" + drawn(5000))
    with open(learnt, "w", newline="") as f:
        f.write("\n".join(s for s in ODD if len(s) < 90) + "\n" + drawn(1000))
    rates = []
    for name, t in trained([text, learnt], 8000, 6000).items():
        path = f"{out}/{name}.json"
        t.save(path)
        for file in (text, odd):
            told = json.loads(starling(command, file, "--tokenizer", path, "--out", out, "--json"))
            content = open(file, newline="").read()
            seconds = []
            for _ in range(2):  # ours, too, begins with nothing remembered
                fresh = Tokenizer.from_file(path)
                begin = time.process_time()
                theirs = fresh.encode(content, add_special_tokens=False).ids
                seconds.append(time.process_time() - begin)
            report(ids_of(f"{out}/train.bin") == theirs, f"{name}, {os.path.basename(file)}: the same {len(theirs)} ids")
            if file == text:
                rates.append((name, told["bytes"] / told["cpu_seconds"] / 1e6, told["bytes"] / min(seconds) / 1e6))
            back = starling(command, "--decode", f"{out}/train.bin", "--tokenizer", path)
            report(back == (content if name == "bpe" else t.decode(theirs, skip_special_tokens=False)).encode(),
                   f"{name}, {os.path.basename(file)}: the same text back")
            again = Tokenizer.from_file(f"{out}/tokenizer.json")
            report(again.encode(content, add_special_tokens=False).ids == theirs, f"{name}: the tokenizer.json that it leaves is read there")
    told = json.loads(starling(command, text, "--tokenizer", "train", "--vocabulary", "8000", "--out", out, "--json"))
    ours = Tokenizer.from_file(f"{out}/tokenizer.json")
    content = open(text, newline="").read()
    report(ours.encode(content).ids == ids_of(f"{out}/train.bin"), "a vocabulary learnt here encodes there to the same ids")
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.train([text], trainers.BpeTrainer(vocab_size=8000, special_tokens=["<|endoftext|>"], show_progress=False, min_frequency=2,
                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    mine = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in json.loads(ours.to_str())["model"]["merges"]]
    hers = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in json.loads(theirs.to_str())["model"]["merges"]]
    report(mine == hers, f"the same {len(mine)} merges as Hugging Face's trainer learns")
    starling(command, text, "--tokenizer", "bytes", "--out", out)
    report(bytes(ids_of(f"{out}/train.bin")) == open(text, "rb").read(), "bytes are bytes")
    print(f"1..{number}")
    print(f"# MB/s on one thread, {os.path.basename(text)}; Hugging Face's tokenizers {tokenizers.__version__}")
    for name, a, b in rates:
        print(f"# {name:8} starling {a:6.1f}  tokenizers {b:6.1f}  {a / b:5.1f} times")
    print(f"# learning 8,000 tokens: {told['learn_seconds']:.2f} s")
    sys.exit(failed)


if __name__ == "__main__":
    {"compare": compare, "record": record}[sys.argv[1]](*sys.argv[2:])
