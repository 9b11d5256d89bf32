"""Matrices of F32 files and of states, times vectors, in 64 bits: by linear.c where GOLDEN_LINEAR names its library,
else in Python, slowly.
"""
import ctypes
import operator
import os

from bitnet import F32, Gguf

LIBRARY = ctypes.CDLL(os.environ["GOLDEN_LINEAR"]) if os.environ.get("GOLDEN_LINEAR") else None


def dot(a, b):
    return sum(map(operator.mul, a, b))


def doubles(x):
    return (ctypes.c_double * len(x))(*x)


class Rows:
    """A tensor of a file: rows by number, more of them by slice."""

    def __init__(self, values, n, first=0, n_row=None):
        self.values, self.n, self.first = values, n, first
        self.n_row = len(values) // n if n_row is None else n_row

    def __len__(self):
        return self.n_row

    def __getitem__(self, at):
        if isinstance(at, slice):
            first, end, _ = at.indices(self.n_row)
            return Rows(self.values, self.n, self.first + first, end - first)
        if not 0 <= at < self.n_row:
            raise IndexError(at)
        return self.values[(self.first + at) * self.n : (self.first + at + 1) * self.n]

    def times(self, x):
        if not LIBRARY:
            return [dot(row, x) for row in self]
        y = (ctypes.c_double * self.n_row)()
        start = ctypes.byref(self.values, 4 * self.first * self.n)
        LIBRARY.linear_f32(start, doubles(x), y, ctypes.c_long(self.n_row), ctypes.c_long(self.n))
        return list(y)


class State:
    """[n_out][n_in] zeros at first."""

    def __init__(self, n_out, n_in):
        self.n_out, self.n_in = n_out, n_in
        self.values = (ctypes.c_double * (n_out * n_in))()

    def update(self, factor, out, by):
        """Becomes factor times itself, and out times by."""
        if LIBRARY:
            LIBRARY.linear_update(self.values, ctypes.c_double(factor), doubles(out), doubles(by),
                                  ctypes.c_long(self.n_out), ctypes.c_long(self.n_in))
            return
        for o, a in enumerate(out):
            for i, b in enumerate(by, o * self.n_in):
                self.values[i] = factor * self.values[i] + a * b

    def times(self, x):
        if not LIBRARY:
            return [dot(self.values[o * self.n_in : (o + 1) * self.n_in], x) for o in range(self.n_out)]
        y = (ctypes.c_double * self.n_out)()
        LIBRARY.linear_f64(self.values, doubles(x), y, ctypes.c_long(self.n_out), ctypes.c_long(self.n_in))
        return list(y)


class File(Gguf):
    """Keys, and F32 tensors as Rows."""

    def rows(self, kind, shape, at):
        n = 1
        for size in shape:
            n *= size
        assert kind == F32
        return Rows((ctypes.c_float * n).from_buffer_copy(self.data, at), shape[0])
