"""Triton kernels of the image filters. Import it only where triton is installed.

A program walks down a strip of one plane, row by row. Each lane owns VECTOR neighbouring columns
and loads them and its neighbours' as aligned vectors, so that columns meet in registers and nothing
passes through shared memory. The next row is loaded before the present one is used.
"""

# ruff: noqa: RUF005 - triton compiles no starred expressions

from __future__ import annotations

import triton
import triton.language as tl

VECTOR = tl.constexpr(4)  # columns of a lane: 16 bytes of float32


@triton.jit
def _reflect(index, length):
    """Mirrored at the borders; far outside, where nothing is stored, any index that exists."""
    index = tl.where(index < 0, -index, index)
    index = tl.where(index >= length, 2 * (length - 1) - index, index)
    return tl.maximum(index, 0)


@triton.jit
def _columns(first, lanes: tl.constexpr):
    return first + VECTOR * tl.arange(0, lanes)[:, None] + tl.arange(0, VECTOR)[None, :]


@triton.jit
def _load_row(
    source,
    row,
    first,
    height,
    width,
    reach: tl.constexpr,
    lanes: tl.constexpr,
    inside: tl.constexpr,
):
    """The lanes' own vectors of a row and reach of them to either side, from the left."""
    start = source + _reflect(row, height) * width.to(tl.int64)
    vectors = ()
    for step in tl.static_range(-reach, reach + 1):
        columns = _columns(first, lanes) + VECTOR * step
        if not inside:
            columns = _reflect(columns, width)
        vectors = vectors + (tl.load(start + columns),)
    return vectors


@triton.jit
def _elements(vectors, lanes: tl.constexpr):
    """Vectors taken apart: one tensor per column, in their order, as float32."""
    elements = ()
    for index in tl.static_range(len(vectors)):
        pairs = tl.reshape(vectors[index].to(tl.float32), (lanes, 2, 2))
        even, odd = tl.split(pairs)
        first, third = tl.split(even)
        second, fourth = tl.split(odd)
        elements = elements + (first, second, third, fourth)
    return elements


@triton.jit
def _vector(elements, lanes: tl.constexpr):
    """VECTOR columns put together again."""
    even = tl.join(elements[0], elements[2])
    odd = tl.join(elements[1], elements[3])
    return tl.reshape(tl.join(even, odd), (lanes, VECTOR))


@triton.jit
def _store_row(target, values, row, top, first, width, lanes: tl.constexpr):
    columns = _columns(first, lanes)
    start = target + row * width.to(tl.int64)
    mask = (columns < width) & (row >= top)
    tl.store(start + columns, values.to(target.dtype.element_ty), mask=mask)


@triton.jit
def _strip(height, width, tiles, strips, rows, lanes: tl.constexpr):
    """This program's first column, first row and the offset of its plane."""
    program = tl.program_id(0)
    first = program % tiles * (lanes * VECTOR)
    top = program // tiles % strips * rows
    plane = (program // tiles // strips).to(tl.int64) * height * width
    return first, top, plane


@triton.jit
def _blur_strip(
    source,
    target,
    first,
    top,
    bottom,
    height,
    width,
    taps: tl.constexpr,
    lanes: tl.constexpr,
    inside: tl.constexpr,
):
    halo: tl.constexpr = len(taps) // 2
    reach: tl.constexpr = (halo + VECTOR - 1) // VECTOR
    start: tl.constexpr = reach * VECTOR - halo
    # partial[i] is what the rows so far give the output row that is i + 1 rows from its last one.
    partial = ()
    for _ in tl.static_range(2 * halo):
        partial = partial + (tl.zeros((lanes, VECTOR), tl.float32),)
    ahead = _load_row(source, top - halo, first, height, width, reach, lanes, inside)
    for row in range(top - halo, bottom + halo):
        elements = _elements(ahead, lanes)
        ahead = _load_row(source, row + 1, first, height, width, reach, lanes, inside)
        sums = ()
        for column in tl.static_range(VECTOR):
            total = taps[0] * elements[start + column]
            for tap in tl.static_range(1, 2 * halo + 1):
                total += taps[tap] * elements[start + column + tap]
            sums = sums + (total,)
        across = _vector(sums, lanes)
        blurred = partial[0] + taps[2 * halo] * across
        _store_row(target, blurred, row - halo, top, first, width, lanes)
        later = ()
        for index in tl.static_range(1, 2 * halo):
            later = later + (partial[index] + taps[2 * halo - index] * across,)
        partial = later + (taps[0] * across,)


@triton.jit(do_not_specialize=["height", "tiles", "strips", "rows"])
def blur(
    source,
    target,
    height,
    width,
    tiles,
    strips,
    rows,
    taps: tl.constexpr,
    lanes: tl.constexpr,
):
    """Separable filter with an odd number of taps, borders reflected, in one pass.

    Two passes would move the image four times where a copy moves it twice, so half the copy
    bandwidth would be their ceiling. Here the row of sums across stays in registers and is added
    to the output rows that it touches; a strip reads only its halo, 2 · halo rows, again.
    """
    first, top, plane = _strip(height, width, tiles, strips, rows, lanes)
    bottom = tl.minimum(top + rows, height)
    source += plane
    target += plane
    reach = (len(taps) // 2 + VECTOR - 1) // VECTOR * VECTOR
    if (first >= reach) & (first + lanes * VECTOR + reach <= width):
        _blur_strip(source, target, first, top, bottom, height, width, taps, lanes, True)
    else:
        _blur_strip(source, target, first, top, bottom, height, width, taps, lanes, False)


@triton.jit
def _sobel_strip(
    source,
    target,
    first,
    top,
    bottom,
    height,
    width,
    lanes: tl.constexpr,
    inside: tl.constexpr,
):
    # Differences and smoothed values across, of the last row and the one before.
    last_difference = tl.zeros((lanes, VECTOR), tl.float32)
    last_smooth = last_difference
    older_difference = last_difference
    older_smooth = last_difference
    ahead = _load_row(source, top - 1, first, height, width, 1, lanes, inside)
    for row in range(top - 1, bottom + 1):
        elements = _elements(ahead, lanes)
        ahead = _load_row(source, row + 1, first, height, width, 1, lanes, inside)
        differences = ()
        smooths = ()
        for column in tl.static_range(VECTOR):
            left = elements[VECTOR + column - 1]
            right = elements[VECTOR + column + 1]
            differences = differences + (right - left,)
            smooths = smooths + (left + 2.0 * elements[VECTOR + column] + right,)
        difference = _vector(differences, lanes)
        smooth = _vector(smooths, lanes)
        horizontal = older_difference + 2.0 * last_difference + difference
        vertical = smooth - older_smooth
        magnitude = tl.sqrt(horizontal * horizontal + vertical * vertical)
        # The first row whose rows above have both been seen is top.
        _store_row(target, magnitude, row - 1, top, first, width, lanes)
        older_difference = last_difference
        older_smooth = last_smooth
        last_difference = difference
        last_smooth = smooth


@triton.jit(do_not_specialize=["height", "tiles", "strips", "rows"])
def sobel(source, target, height, width, tiles, strips, rows, lanes: tl.constexpr):
    """Magnitude of the 3×3 Sobel gradient, borders reflected: each element read and written once.

    A strip reads only two rows of its neighbours again, mostly from cache.
    """
    first, top, plane = _strip(height, width, tiles, strips, rows, lanes)
    bottom = tl.minimum(top + rows, height)
    source += plane
    target += plane
    if (first >= VECTOR) & (first + lanes * VECTOR + VECTOR <= width):
        _sobel_strip(source, target, first, top, bottom, height, width, lanes, True)
    else:
        _sobel_strip(source, target, first, top, bottom, height, width, lanes, False)
