"""make DIR: a folder of classes of images of many kinds. compare DIR SET SIZE CROP MODE: holds an imported set against PIL."""
import glob
import os
import sys

import numpy as np
from PIL import Image, ImageOps


def picture(rng, height, width, mode):
    y, x = np.mgrid[0:height, 0:width]
    waves = [60 * (np.sin(x / 7 + k) + np.cos(y / (5 + k))) + 128 for k in range(4)]
    samples = (np.stack(waves, -1) + rng.normal(0, 15, (height, width, 4))).clip(0, 255).astype("u1")
    if mode in ("RGBA", "CMYK"):
        return Image.frombytes(mode, (width, height), samples.tobytes())
    colour = Image.fromarray(np.ascontiguousarray(samples[..., :3]))
    return colour.quantize(200) if mode == "P" else colour.convert(mode)


def make(folder):
    rng = np.random.default_rng(1)
    kinds = [("RGB", "jpg"), ("L", "jpg"), ("CMYK", "jpg")] + [(m, "png") for m in ("RGB", "L", "RGBA", "P", "1")]
    for number in range(64):
        mode, ending = kinds[number % 8]
        exif = Image.Exif()
        exif[0x0112] = number // 8 + 1
        height, width = rng.integers(20, 400, 2)
        path = os.path.join(folder, "ab"[number % 2])
        os.makedirs(path, exist_ok=True)
        extra = {"progressive": True} if ending == "jpg" and number % 3 == 0 else {}
        picture(rng, height, width, mode).save(f"{path}/{number:02}.{ending}", exif=exif, **extra)


def listed(folder):
    names = sorted(os.listdir(folder))
    deeper = [n for n in names if os.path.isdir(os.path.join(folder, n))]
    here = [n for n in names if n not in deeper and n.lower().endswith((".jpg", ".jpeg", ".jpe", ".png"))]
    return [os.path.join(folder, n) for n in here] + [p for n in deeper for p in listed(os.path.join(folder, n))]


def compare(folder, imported, size, crop, mode):
    with open(glob.glob(os.path.join(imported, "train-images*"))[0], "rb") as file:
        content = file.read()
    shape = np.frombuffer(content, ">u4", content[3], 4).astype(int)
    ours = np.frombuffer(content, "u1", -1, 4 + 4 * content[3]).reshape(shape)
    paths = listed(folder)
    assert len(paths) == len(ours), (len(paths), len(ours))
    worst = different = 0
    for path, mine in zip(paths, ours):
        image = ImageOps.exif_transpose(Image.open(path)).convert(mode)
        width, height = image.size
        if width <= height:
            image = image.resize((size, int(size * height / width)), Image.BILINEAR)
        else:
            image = image.resize((int(size * width / height), size), Image.BILINEAR)
        width, height = image.size
        top, left = int(round((height - crop) / 2.0)), int(round((width - crop) / 2.0))
        away = np.abs(np.asarray(image.crop((left, top, left + crop, top + crop)), int) - mine.astype(int))
        worst, different = max(worst, away.max()), different + (away > 0).mean()
        if away.max() > 1:
            print(f"not ok - {path}: {away.max()} levels away")
    print(f"{len(paths)} images, {mode}, {size} to {crop}: at most {worst} levels away, {different / len(paths):.2%} of the pixels differ")
    return worst <= 1


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        sys.exit(not compare(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]))
