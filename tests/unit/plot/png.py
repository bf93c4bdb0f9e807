"""The pixels of a PNG of 8 bits a channel, as cairo writes it."""
import struct
import zlib


def chunks(data):
    at = 8
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8:at + 8 + length]
        at += 12 + length


def predict(kind, left, up, corner):
    if kind == 4:
        estimate = left + up - corner
        return min(
            (abs(estimate - value), i, value) for i, value in enumerate((left, up, corner)))[2]
    return (0, left, up, (left + up) // 2)[kind]


class Image:
    """width, height, and row(y): bytes of red, green, blue of each pixel."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        if data[:8] != b"\x89PNG\r\n\x1a\n":
            raise ValueError("no PNG")
        parts = list(chunks(data))
        self.kinds = [kind for kind, _ in parts]
        self.width, self.height, depth, colour = struct.unpack_from(">IIBB", parts[0][1])
        if (depth, colour) != (8, 2):
            raise ValueError(f"depth {depth}, colour type {colour}")
        raw = zlib.decompress(b"".join(body for kind, body in parts if kind == b"IDAT"))
        stride = 3 * self.width
        self.rows, before = [], bytes(stride)
        for y in range(self.height):
            kind = raw[y * (stride + 1)]
            row = bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
            for i in range(stride) if kind else ():
                left, corner = (row[i - 3], before[i - 3]) if i >= 3 else (0, 0)
                row[i] = (row[i] + predict(kind, left, before[i], corner)) & 255
            self.rows.append(bytes(row))
            before = row

    def is_coloured(self, x, y):
        """Neither white, grey nor black."""
        pixel = self.rows[y][3 * x:3 * x + 3]
        return max(pixel) - min(pixel) > 40
