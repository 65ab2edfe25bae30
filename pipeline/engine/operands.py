"""The operands of the innermost loop as LLVM sees them: what is loaded, spread, fetched ahead and stored, and where.

Nothing here decides what is summed in which order: `tile.py` does.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from pipeline.engine.reading import COLUMNS, TOGETHER

_LINE = 64  # bytes


class Operands:
    """The operands of `tile.multiply` as addresses and sizes, and the instructions that both kinds of weights share."""

    def __init__(self, rows: int, context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> None:
        kinds = signature.args
        self.builder, self._context, self.rows = builder, context, rows
        self.number, self.bits = context.get_value_type(kinds[8].dtype), kinds[8].dtype.bitwidth
        x, of_rows, weights, scale, bias, out = (
            context.make_array(kinds[i])(context, builder, arguments[i]) for i in (1, 2, 4, 6, 7, 8))
        row, panel = (context.cast(builder, arguments[i], kinds[i], types.intp) for i in (3, 5))
        places = [builder.add(row, self.index(r)) for r in range(rows)]
        (self._M, self.K), (_, self._N) = (cgutils.unpack_tuple(builder, one.shape) for one in (x, out))
        begin = builder.mul(panel, self.index(COLUMNS))
        self._begin, self._end = (context.cast(builder, arguments[i], kinds[i], types.intp) for i in (9, 10))
        self._depth = builder.sub(self._end, self._begin)
        self.panel = builder.gep(weights.data, [builder.add(builder.mul(begin, self.K),
                                                            builder.mul(self._begin, self.index(COLUMNS)))])
        self.x_rows = [builder.gep(x.data, [builder.add(builder.mul(place, self.K), self._begin)]) for place in places]
        self.factors, self.sums = ([builder.gep(of_rows.data, [builder.add(builder.mul(place, self.index(2)),
                                                                           self.index(i))]) for place in places]
                                   for i in range(2))
        self._out = [builder.gep(out.data, [builder.add(builder.mul(place, self._N), begin)]) for place in places]
        self._scale, self._bias = (builder.gep(one.data, [begin]) for one in (scale, bias))
        self._remaining, self._row = builder.sub(self._N, begin), row
        self._lines = TOGETHER * COLUMNS * kinds[4].dtype.bitwidth // 8 // _LINE
        self._fetches = context.cast(builder, arguments[11], kinds[11], types.boolean)

    def index(self, value: int) -> ir.Constant:
        return self._context.get_constant(types.intp, value)

    def load(self, vector: ir.VectorType, base: ir.Value, place: ir.Value) -> ir.Value:
        """Consecutive numbers of an array, from an index on."""
        source = self.builder.bitcast(self.builder.gep(base, [place]), vector.as_pointer())
        return self.builder.load(source, align=1)

    @contextmanager
    def steps(self, part: int, parts: int) -> Iterator[ir.Value]:
        """A loop over a part of the panel, `TOGETHER` numbers of a column at a time, that fetches from the next part.

        Args:
            part, parts: which of all passes over this part it is.

        Yields:
            The index of the first of these numbers.
        """
        builder = self.builder
        steps = builder.sdiv(self._depth, self.index(TOGETHER))
        first, lines = self._share(part, parts)
        begin = builder.mul(builder.mul(steps, builder.add(self.index(self._lines), first)), self.index(_LINE))
        share = builder.gep(builder.bitcast(self.panel, ir.IntType(8).as_pointer()), [begin])
        with cgutils.for_range_slice(builder, self.index(0), self._depth, self.index(TOGETHER)) as (k, step):
            fetched = builder.mul(step, lines)
            with cgutils.for_range(builder, lines) as loop:
                line = builder.mul(builder.add(fetched, loop.index), self.index(_LINE))
                self._fetch(builder.gep(share, [line]))
            yield k

    def _share(self, part: int, parts: int) -> tuple[ir.Value, ir.Value]:
        """The share of a part that one of all passes over the part before it fetches, in lines per step of its loop.

        Returns:
            What the passes before it fetch, and its own share, 0 where nothing is to be fetched.
        """
        builder = self.builder
        passes = builder.mul(self._M, self.index(parts))  # counted by rows
        before = builder.add(builder.mul(self._row, self.index(parts)), self.index(self.rows * part))
        own = builder.add(self.index(self.rows * self._lines), builder.sub(passes, self.index(1)))  # to round up
        return (builder.sdiv(builder.mul(before, self.index(self._lines)), passes),
                builder.select(self._fetches, builder.sdiv(own, passes), self.index(0)))

    def _fetch(self, address: ir.Value) -> None:
        """Begin to read a line into the second cache; to fetch an unmapped address has no effect.

        The nearest one has no room for what comes next: fetched into it, this would push out what is multiplied.
        """
        number = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(ir.VoidType(), [address.type, number, number, number]),
            "llvm.prefetch.p0")
        reading, second, data = number(0), number(2), number(1)
        self.builder.call(function, [address, reading, second, data])

    def spread(self, vector: ir.VectorType, value: ir.Value) -> ir.Value:
        """A number in all lanes."""
        undefined, first = ir.Constant(vector, ir.Undefined), ir.VectorType(ir.IntType(32), vector.count)
        one = self.builder.insert_element(undefined, value, self.index(0))
        return self.builder.shuffle_vector(one, undefined, ir.Constant(first, None))

    def begin(self, totals: Sequence[ir.Value], first: int) -> None:
        """Set the sums of every row to 0 or, after the first part of the panel, to those so far.

        Args:
            totals: addresses of a vector per row.
            first: their first column in the panel.
        """
        builder, vector = self.builder, totals[0].type.pointee
        with builder.if_else(builder.icmp_signed("==", self._begin, self.index(0))) as (whole, further):
            with whole:
                for total in totals:
                    builder.store(ir.Constant(vector, None), total)
            with further:
                for total, out in zip(totals, self._out, strict=True):
                    builder.store(self._load_columns(out, vector, first), total)

    def end(self, totals: Sequence[ir.Value], first: int) -> None:
        """Write the sums of every row: complete after the last part of the panel, else those so far; see `begin`."""
        builder = self.builder
        sums = [builder.load(total) for total in totals]
        with builder.if_else(builder.icmp_signed("==", self._end, self.K)) as (complete, so_far):
            with complete:
                self.store(sums, first)
            with so_far:
                for total, out in zip(sums, self._out, strict=True):
                    self._store_columns(total, out, first)

    def store(self, sums: Sequence[ir.Value], first: int, factors: Sequence[ir.Value] = ()) -> None:
        """Scale the sums of every row, add the bias, and write as many as the matrix has columns.

        Args:
            sums: a vector of floats per row.
            first: their first column in the panel.
            factors: also of the rows; none: 1.
        """
        builder, vector = self.builder, sums[0].type
        scale, bias = (self._load_columns(base, vector, first) for base in (self._scale, self._bias))
        for r, total in enumerate(sums):
            scaled = builder.fmul(scale, self.spread(vector, factors[r])) if factors else scale
            self._store_columns(builder.fadd(builder.fmul(total, scaled), bias), self._out[r], first)

    def _load_columns(self, base: ir.Value, vector: ir.VectorType, first: int) -> ir.Value:
        """Those of a vector of numbers that the matrix has columns for, and 0 for the others."""
        return self._call("masked.load", vector, vector, [*self._columns(base, vector, first),
                                                          ir.Constant(vector, None)], ".p0")

    def _store_columns(self, numbers: ir.Value, base: ir.Value, first: int) -> None:
        """Store a vector of numbers; of the last panel, those that the matrix has columns for.

        AMD processors without AVX-512 take many cycles for a masked store.
        """
        builder = self.builder
        address, alignment, mask = self._columns(base, numbers.type, first)
        with builder.if_else(builder.icmp_signed(">=", self._remaining, self.index(COLUMNS)),
                             likely=True) as (whole, cut):
            with whole:
                builder.store(numbers, address, align=self.bits // 8)
            with cut:
                self._call("masked.store", numbers.type, ir.VoidType(), [numbers, address, alignment, mask], ".p0")

    def _columns(self, base: ir.Value, vector: ir.VectorType, first: int) -> list[ir.Value]:
        """The address of a vector of numbers, its alignment, and which of them the matrix has columns for."""
        builder, lanes = self.builder, ir.VectorType(ir.IntType(64), vector.count)
        columns = ir.Constant(lanes, list(range(first, first + vector.count)))
        return [builder.bitcast(builder.gep(base, [self.index(first)]), vector.as_pointer()),
                ir.Constant(ir.IntType(32), self.bits // 8),
                builder.icmp_signed("<", columns, self.spread(lanes, self._remaining))]

    def multiply_add(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x * y + z."""
        return self._call("fmuladd", x.type, x.type, [x, y, z])

    def _call(self, name: str, vector: ir.VectorType, result: ir.Type, arguments: list[ir.Value],
              suffix: str = "") -> ir.Value:
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(result, [argument.type for argument in arguments]),
            f"llvm.{name}.v{vector.count}f{self.bits}{suffix}")
        return self.builder.call(function, arguments)
