"""Triton kernels for the image filters; import this module only where triton is installed.

A program walks down a strip of one plane, row by row. Each lane owns `vector` neighbouring columns,
and loads these and its neighbours' columns as aligned vectors, so that columns are combined in
registers and nothing passes through shared memory. A lane loads its own vectors AHEAD rows before
they are used; by then, its neighbours' vectors are in the cache, as other lanes have loaded them.
"""

# ruff: noqa: RET505, RUF005 - triton compiles no starred expressions, and returns by `else`

from __future__ import annotations

import triton
import triton.language as tl

# Rows. With whole rows one ahead, an H200's schedulers were busy half of the time, waiting for
# memory; whole rows two ahead take 209 registers, a lane's own ones three ahead 128.
AHEAD = tl.constexpr(3)


@triton.jit
def _reflect(index, length):
    """Mirror indices at the borders; any index will do far outside, where nothing is stored."""
    index = tl.where(index < 0, -index, index)
    index = tl.where(index >= length, 2 * (length - 1) - index, index)
    return tl.maximum(index, 0)


@triton.jit
def _columns(first, lanes: tl.constexpr, vector: tl.constexpr):
    return first + vector * tl.arange(0, lanes)[:, None] + tl.arange(0, vector)[None, :]


@triton.jit
def _load(
    source,
    row,
    first,
    height,
    width,
    step: tl.constexpr,
    lanes: tl.constexpr,
    vector: tl.constexpr,
    inside: tl.constexpr,
):
    """Load a row's vectors: the lanes' own, or the ones `step` vectors to the right."""
    columns = _columns(first, lanes, vector) + vector * step
    if not inside:
        columns = _reflect(columns, width)
    return tl.load(source + _reflect(row, height) * width.to(tl.int64) + columns)


@triton.jit
def _four_elements(vectors, lanes: tl.constexpr):
    even, odd = tl.split(tl.reshape(vectors, (lanes, 2, 2)))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def _elements(vectors, lanes: tl.constexpr, vector: tl.constexpr):
    """Split vectors of 4 or 8 columns into one float32 tensor per column, in order."""
    elements = ()
    for index in tl.static_range(len(vectors)):
        row = vectors[index].to(tl.float32)
        if vector == 4:
            elements = elements + _four_elements(row, lanes)
        else:
            even, odd = tl.split(tl.reshape(row, (lanes, 4, 2)))
            evens, odds = _four_elements(even, lanes), _four_elements(odd, lanes)
            for place in tl.static_range(4):
                elements = elements + (evens[place], odds[place])
    return elements


@triton.jit
def _first_rows(
    source,
    row,
    first,
    height,
    width,
    lanes: tl.constexpr,
    vector: tl.constexpr,
    inside: tl.constexpr,
):
    """Load the lanes' own vectors for AHEAD rows, starting with `row`."""
    ahead = ()
    for place in tl.static_range(AHEAD):
        loaded = _load(source, row + place, first, height, width, 0, lanes, vector, inside)
        ahead = ahead + (loaded,)
    return ahead


@triton.jit
def _next_row(
    ahead,
    source,
    row,
    first,
    height,
    width,
    reach: tl.constexpr,
    lanes: tl.constexpr,
    vector: tl.constexpr,
    inside: tl.constexpr,
):
    """Return a row's elements with `reach` vectors on either side, and the rows loaded ahead."""
    vectors = ()
    for step in tl.static_range(-reach, reach + 1):
        if step == 0:
            vectors = vectors + (ahead[0],)
        else:
            found = _load(source, row, first, height, width, step, lanes, vector, inside)
            vectors = vectors + (found,)
    later = ()
    for index in tl.static_range(1, AHEAD):
        later = later + (ahead[index],)
    further = _load(source, row + AHEAD, first, height, width, 0, lanes, vector, inside)
    return _elements(vectors, lanes, vector), later + (further,)


@triton.jit
def _vector_of_four(first, second, third, fourth, lanes: tl.constexpr):
    return tl.reshape(tl.join(tl.join(first, third), tl.join(second, fourth)), (lanes, 4))


@triton.jit
def _vector(elements, lanes: tl.constexpr, vector: tl.constexpr):
    """Join a lane's columns into a vector."""
    if vector == 4:
        return _vector_of_four(elements[0], elements[1], elements[2], elements[3], lanes)
    else:
        even = _vector_of_four(elements[0], elements[2], elements[4], elements[6], lanes)
        odd = _vector_of_four(elements[1], elements[3], elements[5], elements[7], lanes)
        return tl.reshape(tl.join(even, odd), (lanes, 8))


@triton.jit
def _store_row(target, values, row, top, first, width, lanes: tl.constexpr, vector: tl.constexpr):
    columns = _columns(first, lanes, vector)
    start = target + row * width.to(tl.int64)
    mask = (columns < width) & (row >= top)
    tl.store(start + columns, values.to(target.dtype.element_ty), mask=mask)


@triton.jit
def _strip(height, width, tiles, strips, rows, columns: tl.constexpr):
    """Return this program's first column, its first row and the offset of its plane."""
    program = tl.program_id(0)
    first = program % tiles * columns
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
    vector: tl.constexpr,
    inside: tl.constexpr,
):
    halo: tl.constexpr = len(taps) // 2
    reach: tl.constexpr = (halo + vector - 1) // vector
    start: tl.constexpr = reach * vector - halo
    # partial[i] is the sum of the rows so far for the output row i + 1 rows from its last one.
    partial = ()
    for _ in tl.static_range(2 * halo):
        partial = partial + (tl.zeros((lanes, vector), tl.float32),)
    upper = top - halo
    ahead = _first_rows(source, upper, first, height, width, lanes, vector, inside)
    for row in range(upper, bottom + halo):
        elements, ahead = _next_row(
            ahead, source, row, first, height, width, reach, lanes, vector, inside
        )
        sums = ()
        for column in tl.static_range(vector):
            total = taps[0] * elements[start + column]
            for tap in tl.static_range(1, 2 * halo + 1):
                total += taps[tap] * elements[start + column + tap]
            sums = sums + (total,)
        across = _vector(sums, lanes, vector)
        blurred = partial[0] + taps[2 * halo] * across
        _store_row(target, blurred, row - halo, top, first, width, lanes, vector)
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
    vector: tl.constexpr,
):
    """Apply a separable filter with an odd number of taps in one pass, with reflected borders.

    Two passes would move the image four times, whereas a copy moves it twice, so they could reach
    at most half the copy bandwidth. Here the horizontal sums stay in registers and are added to the
    output rows to which they contribute; a strip rereads only its halo, 2 · halo rows.
    """
    first, top, plane = _strip(height, width, tiles, strips, rows, lanes * vector)
    bottom = tl.minimum(top + rows, height)
    source += plane
    target += plane
    reach = (len(taps) // 2 + vector - 1) // vector * vector
    if (first >= reach) & (first + lanes * vector + reach <= width):
        _blur_strip(source, target, first, top, bottom, height, width, taps, lanes, vector, True)
    else:
        _blur_strip(source, target, first, top, bottom, height, width, taps, lanes, vector, False)


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
    vector: tl.constexpr,
    inside: tl.constexpr,
):
    # Horizontal differences and smoothed values of the last two rows. Separate zeros for each: the
    # compiler merges names bound to one tensor into a single loop-carried value.
    last_difference = tl.zeros((lanes, vector), tl.float32)
    last_smooth = tl.zeros((lanes, vector), tl.float32)
    older_difference = tl.zeros((lanes, vector), tl.float32)
    older_smooth = tl.zeros((lanes, vector), tl.float32)
    ahead = _first_rows(source, top - 1, first, height, width, lanes, vector, inside)
    for row in range(top - 1, bottom + 1):
        elements, ahead = _next_row(
            ahead, source, row, first, height, width, 1, lanes, vector, inside
        )
        differences = ()
        smooths = ()
        for column in tl.static_range(vector):
            left = elements[vector + column - 1]
            right = elements[vector + column + 1]
            differences = differences + (right - left,)
            smooths = smooths + (left + 2.0 * elements[vector + column] + right,)
        difference = _vector(differences, lanes, vector)
        smooth = _vector(smooths, lanes, vector)
        horizontal = older_difference + 2.0 * last_difference + difference
        vertical = smooth - older_smooth
        magnitude = tl.sqrt(horizontal * horizontal + vertical * vertical)
        # top is the first row for which both rows above have been seen.
        _store_row(target, magnitude, row - 1, top, first, width, lanes, vector)
        older_difference = last_difference
        older_smooth = last_smooth
        last_difference = difference
        last_smooth = smooth


@triton.jit(do_not_specialize=["height", "tiles", "strips", "rows"])
def sobel(
    source,
    target,
    height,
    width,
    tiles,
    strips,
    rows,
    lanes: tl.constexpr,
    vector: tl.constexpr,
):
    """Compute the magnitude of the 3×3 Sobel gradient, with reflected borders, in one pass.

    Each element is read and written once; a strip rereads only two rows of its neighbours, mostly
    from the cache.
    """
    first, top, plane = _strip(height, width, tiles, strips, rows, lanes * vector)
    bottom = tl.minimum(top + rows, height)
    source += plane
    target += plane
    if (first >= vector) & (first + lanes * vector + vector <= width):
        _sobel_strip(source, target, first, top, bottom, height, width, lanes, vector, True)
    else:
        _sobel_strip(source, target, first, top, bottom, height, width, lanes, vector, False)
