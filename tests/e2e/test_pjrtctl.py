"""pjrtctl as a user runs it: exact output, exit statuses, JSON, numpy's files, terminals, man page, completion, install."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

from daemon import Daemon, binary_path, clean_environment
from wire_messages import REPOSITORY

CLIENT = REPOSITORY / "client-lib"
ADD = CLIENT / "examples" / "add.mlir"
FOREVER = REPOSITORY / "tests" / "e2e" / "cases" / "endless_loop.mlir"

# pjrtd's name, numpy's type, MLIR's type.
TYPES = {
    "pred": (np.bool_, "i1"),
    "s8": (np.int8, "i8"), "s16": (np.int16, "i16"), "s32": (np.int32, "i32"), "s64": (np.int64, "i64"),
    "u8": (np.uint8, "ui8"), "u16": (np.uint16, "ui16"), "u32": (np.uint32, "ui32"), "u64": (np.uint64, "ui64"),
    "f16": (np.float16, "f16"), "f32": (np.float32, "f32"), "f64": (np.float64, "f64"),
    "bf16": (ml_dtypes.bfloat16, "bf16"),
    "c64": (np.complex64, "complex<f32>"), "c128": (np.complex128, "complex<f64>"),
    "f8e5m2": (ml_dtypes.float8_e5m2, "f8E5M2"), "f8e4m3fn": (ml_dtypes.float8_e4m3fn, "f8E4M3FN"),
    "f8e4m3b11fnuz": (ml_dtypes.float8_e4m3b11fnuz, "f8E4M3B11FNUZ"),
    "f8e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, "f8E5M2FNUZ"), "f8e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, "f8E4M3FNUZ"),
    "f8e4m3": (ml_dtypes.float8_e4m3, "f8E4M3"), "f8e3m4": (ml_dtypes.float8_e3m4, "f8E3M4"),
    "f8e8m0fnu": (ml_dtypes.float8_e8m0fnu, "f8E8M0FNU"), "f4e2m1fn": (ml_dtypes.float4_e2m1fn, "f4E2M1FN"),
    "f6e2m3fn": (ml_dtypes.float6_e2m3fn, "f6E2M3FN"), "f6e3m2fn": (ml_dtypes.float6_e3m2fn, "f6E3M2FN"),
    "s4": (ml_dtypes.int4, "i4"), "u4": (ml_dtypes.uint4, "ui4"),
    "s2": (ml_dtypes.int2, "i2"), "u2": (ml_dtypes.uint2, "ui2"),
}
BITS = {"f4e2m1fn": 4, "f6e2m3fn": 6, "f6e3m2fn": 6, "s4": 4, "u4": 4, "s2": 2, "u2": 2, "pred": 1}
SMALL_FLOATS = [name for name in TYPES if re.match(r"f[468]e|f16|bf16", name)]


class OverGrpc(Daemon):
    """The same daemon, whose target is its port."""

    target = Daemon.grpc_target


@pytest.fixture(scope="module", params=[Daemon, OverGrpc], ids=["unix", "grpc"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory() as folder:
        with request.param(listen=[f"unix:{folder}/s.sock", "grpc://127.0.0.1:0"]) as started:
            yield started


def pjrtctl_path() -> pathlib.Path:
    return binary_path().parent / "pjrtctl"


def environment(target: str | None, **extra: str) -> dict[str, str]:
    return clean_environment(({"PJRTD_TARGET": target} if target else {}) | extra)


def ctl(daemon: Daemon | None, *args: object, stdin: str | bytes = b"", env: dict[str, str] | None = None,
        ) -> subprocess.CompletedProcess[str]:
    """Runs pjrtctl on that daemon."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run([str(pjrtctl_path()), *map(str, args)], input=data, capture_output=True, timeout=120,
                          env=env or environment(daemon.target if daemon else None))
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def output(daemon: Daemon, *args: object, stdin: str | bytes = b"") -> str:
    done = ctl(daemon, *args, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def identity(mlir_type: str, dims: tuple[int, ...]) -> str:
    tensor = f"tensor<{''.join(f'{dim}x' for dim in dims)}{mlir_type}>"
    return f"func.func @main(%x: {tensor}) -> {tensor} {{ return %x : {tensor} }}"


# -- run ----------------------------------------------------------------------


def test_run_prints_each_result_on_a_line(daemon: Daemon) -> None:
    assert output(daemon, "run", ADD, "--arg", "f32[4]=1,2,3,4", "--arg", "f32[4]=10,20,30,40") == \
        "f32[4]=11,22,33,44\n"
    two = ("func.func @main(%x: tensor<2xf32>, %i: tensor<i32>) -> (tensor<i32>, tensor<2xf32>) {"
           " return %i, %x : tensor<i32>, tensor<2xf32> }")
    assert output(daemon, "run", "-", "--arg=f32[2]=0.1,-0", "--arg", "s32=-7", stdin=two) == \
        "s32[]=-7\nf32[2]=0.1,-0\n"


def test_one_value_fills_all(daemon: Daemon) -> None:
    assert output(daemon, "run", ADD, "--arg", "f32[4]=1.5", "--arg", "f32[4]=0x10") == "f32[4]=17.5,17.5,17.5,17.5\n"


@pytest.mark.parametrize(("dtype", "given", "printed"), [
    ("f32", "1e6,16777216,1e-5,1e-6", "1000000,16777216,0.00001,1e-06"),
    ("f32", "3.4028235e38,1e-45,inf,nan", "3.4028235e+38,1e-45,inf,nan"),
    ("f64", "0.1,1e15,1e16,-1e-300", "0.1,1000000000000000,1e+16,-1e-300"),
    ("f64", "1.7976931348623157e308,5e-324,123456.789,-inf", "1.7976931348623157e+308,5e-324,123456.789,-inf"),
    ("bf16", "0.1,3.14159,1e38,16777216", "0.1,3.14,1e+38,16777216"),
    ("f16", "0.1,65504,6e-8,2049.5", "0.1,65504,6e-08,2050"),
    ("f8e4m3fn", "448,0.1,-0,nan", "448,0.1015625,-0,nan"),
    ("f8e8m0fnu", "1,2,0.5,1.7e38", "1,2,0.5,1.7014118346046923e+38"),
    ("c64", "1+2j,-1.5-0.1j,2j,nan-infj", "1+2j,-1.5-0.1j,0+2j,nan-infj"),
    ("c128", "1e3,-0-0j,infj,1e-3j", "1000+0j,-0-0j,0+infj,0+0.001j"),
    ("pred", "true,false,1,0", "true,false,true,false"),
    ("s64", "-9223372036854775808,9223372036854775807,0x7f,-1",
     "-9223372036854775808,9223372036854775807,127,-1"),
    ("u64", "18446744073709551615,0,1,0xffff", "18446744073709551615,0,1,65535"),
    ("s4", "-8,7,-1,0", "-8,7,-1,0"),
    ("u4", "15,0,1,8", "15,0,1,8"),
])
def test_numbers_are_read_and_written(daemon: Daemon, dtype: str, given: str, printed: str) -> None:
    text = identity(TYPES[dtype][1], (4,))
    assert output(daemon, "run", "-", "--arg", f"{dtype}[4]={given}", stdin=text) == f"{dtype}[4]={printed}\n"


@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_every_small_float_is_what_ml_dtypes_says_and_reads_back(daemon: Daemon, name: str,
                                                                 tmp_path: pathlib.Path) -> None:
    """Every bit pattern: the printed text has ml_dtypes' value, exactly or rounded once, and given back as it is makes the
    same bits."""
    numpy_type, mlir = TYPES[name]
    width = np.dtype(numpy_type).itemsize
    raw = np.arange(1 << (BITS.get(name, 8) if width == 1 else 16), dtype=f"<u{width}")
    np.save(tmp_path / "raw.npy", raw.view(numpy_type) if name == "f16" else raw)
    text = identity(mlir, raw.shape)
    line = output(daemon, "run", "-", "--arg", f"{name}[{raw.size}]=@{tmp_path / 'raw.npy'}", stdin=text).strip()
    prefix, _, values = line.partition("=")
    assert prefix == f"{name}[{raw.size}]"
    printed = values.split(",")
    with np.errstate(invalid="ignore"):
        expected = raw.view(numpy_type).astype(np.float64)
    values_printed = np.array([float(value) for value in printed])
    if width == 1:
        np.testing.assert_array_equal(values_printed, expected)  # exact
    else:
        np.testing.assert_array_equal(values_printed.astype(numpy_type).astype(np.float64), expected)
    assert np.array_equal(np.signbit(values_printed)[expected == 0],
                          np.signbit(expected)[expected == 0])
    # Half of them at a time: an argument of the command line has at most 128 KiB.
    back = []
    for part in np.array_split(np.arange(raw.size), 16 if width == 2 else 1):
        again = ",".join(printed[i] for i in part)
        output(daemon, "run", "-", "--arg", f"{name}[{part.size}]={again}", "--save", tmp_path / "o.npz",
               stdin=identity(mlir, (part.size,)))
        back.append(np.load(tmp_path / "o.npz")["output_0"].view(f"<u{width}").reshape(-1))
    same = np.concatenate(back) == raw
    assert same[~np.isnan(expected)].all()
    assert np.isnan(np.concatenate(back).view(numpy_type).astype(np.float64))[np.isnan(expected)].all()


@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_small_floats_round_to_nearest_even(daemon: Daemon, name: str, tmp_path: pathlib.Path) -> None:
    """Values between neighbours, and the ties, against ml_dtypes' conversion from double."""
    numpy_type, mlir = TYPES[name]
    width = np.dtype(numpy_type).itemsize
    raw = np.arange(1 << (BITS.get(name, 8) if width == 1 else 16), dtype=f"<u{width}")
    with np.errstate(invalid="ignore"):
        exact = finite = np.sort(np.unique(raw.view(numpy_type).astype(np.float64)))
    exact = exact[np.isfinite(exact)]
    exact = exact[:: max(1, exact.size // 200)] if width == 1 else exact[:: exact.size // 600]
    finite = finite[np.isfinite(finite)]
    above = finite[np.minimum(np.searchsorted(finite, exact, side="right"), finite.size - 1)]
    points = np.concatenate([exact, (exact + above) / 2, exact * 0.75 + above * 0.25])
    if name == "f8e8m0fnu":
        points = points[points > 2.0**-126]  # below that ml_dtypes does not round to nearest
    arg = ",".join(repr(float(point)) for point in points)
    output(daemon, "run", "-", "--arg", f"{name}[{points.size}]={arg}", "--save", tmp_path / "o.npz",
           stdin=identity(mlir, points.shape))
    got = np.load(tmp_path / "o.npz")["output_0"].view(numpy_type).astype(np.float64)
    np.testing.assert_array_equal(got, points.astype(numpy_type).astype(np.float64))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_floats_are_the_shortest_that_read_back(daemon: Daemon, dtype: str) -> None:
    numpy_type = TYPES[dtype][0]
    width = np.dtype(numpy_type).itemsize
    random = np.random.default_rng(3)
    data = random.integers(0, 256, 1000 * width, dtype=np.uint8).tobytes()
    values = np.frombuffer(data, numpy_type)
    values = values[np.isfinite(values)][:800]
    line = output(daemon, "run", "-", "--arg", f"{dtype}[800]=hex:{values.tobytes().hex()}",
                  stdin=identity(TYPES[dtype][1], (800,)))
    printed = line.strip().partition("=")[2].split(",")
    for text, value in zip(printed, values, strict=True):
        assert numpy_type(text).tobytes() == value.tobytes()
        digits = len(re.sub(r"e.*|[-.]", "", text).strip("0"))
        shortest = len(re.sub(r"e.*|[-.]", "", np.format_float_scientific(value, trim="-")).strip("0"))
        # Large integers are written exactly where zeros would take the same room.
        assert digits <= shortest or int(text) == int(value)


@pytest.mark.parametrize(("argument", "said"), [
    ("s4[1]=8", "argument 0: 8 does not fit s4"),
    ("s8[1]=-129", "argument 0: -129 does not fit s8"),
    ("u8[1]=-1", "argument 0: -1 does not fit u8"),
    ("u2[1]=4", "argument 0: 4 does not fit u2"),
    ("f32[1]=1e39", "argument 0: 1e39 does not fit f32"),
    ("f64[1]=1e309", "argument 0: 1e309 does not fit f64"),
    ("f16[1]=65520", "argument 0: 65520 does not fit f16"),
    ("f8e4m3fn[1]=465", "argument 0: 465 does not fit f8e4m3fn"),
    ("f8e4m3fn[1]=inf", "argument 0: inf does not fit f8e4m3fn"),
    ("f4e2m1fn[1]=nan", "argument 0: nan does not fit f4e2m1fn"),
    ("f8e8m0fnu[1]=-1", "argument 0: -1 does not fit f8e8m0fnu"),
    ("f32[4]=1,2,3", "argument 0: there are 3 values for 4 elements"),
    ("f32[2]=1,2,3", "argument 0: there are 3 values for 2 elements"),
    ("f32[2]=1,x", 'argument 0: "x" is not a value of f32'),
    ("f32[2]=1 2", 'argument 0: "2" follows a value of f32'),
    ("f32[2]=1,2,", "argument 0: a value is missing behind the last comma"),
    ("c64[1]=1+2", 'argument 0: "1+2" is not a value of c64'),
    ("pred[1]=yes", 'argument 0: "yes" is not a value of pred (true, false)'),
    ("float32[1]=1", 'argument 0: "float32" is not an element type'),
    ("f32[1", 'argument 0: "f32[1" is not TYPE[DIMENSIONS]=VALUES'),
    ("f32[1=1", "argument 0: the dimensions are not as in TYPE[DIMENSIONS]=VALUES"),
    ("f32[-1]=1", "argument 0: the dimensions are not as in"),
    ("f32[1,]=1", None),
    ("f32[4611686018427387904,4]=1", "argument 0: the size of f32[4611686018427387904,4] overflows 63 bits"),
    ("s4[5]=hex:f8ff0703", "argument 0: there are 8 hexadecimal digits for 5 bytes"),
    ("s4[1]=hex:fg", "argument 0: 'g' is not a hexadecimal digit"),
])
def test_a_bad_argument_is_a_usage_error_that_says_why(argument: str, said: str | None) -> None:
    done = ctl(None, "run", ADD, "--arg", argument, env=environment("unix:/nonexistent/s"))
    if said is None:
        assert done.returncode == 3  # accepted, as numpy writes it
        return
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert done.stderr.startswith("pjrtctl: ")
    assert done.stdout == ""


def test_hex_is_the_bytes_on_the_host(daemon: Daemon) -> None:
    assert output(daemon, "run", "-", "--arg", "s4[5]=hex:f8ff070300", stdin=identity("i4", (5,))) == \
        "s4[5]=-8,-1,7,3,0\n"


def test_empty_and_scalar_results(daemon: Daemon) -> None:
    assert output(daemon, "run", "-", "--arg", "f32[2,0,3]=", stdin=identity("f32", (2, 0, 3))) == "f32[2,0,3]=\n"
    assert output(daemon, "run", "-", "--arg", "f64[]=2.5", stdin=identity("f64", ())) == "f64[]=2.5\n"
    assert output(daemon, "run", "-", stdin="func.func @main() { return }") == ""


def test_several_devices(daemon: Daemon) -> None:
    given = ("run", ADD, "--replicas", "2")
    assert output(daemon, *given, "--arg", "f32[4]=1", "--arg", "f32[4]=2") == \
        "# device 0\nf32[4]=3,3,3,3\n# device 1\nf32[4]=3,3,3,3\n"
    assert output(daemon, *given, *(word for n in (1, 2, 30, 40) for word in ("--arg", f"f32[4]={n}"))) == \
        "# device 0\nf32[4]=3,3,3,3\n# device 1\nf32[4]=70,70,70,70\n"
    assert json.loads(output(daemon, "run", ADD, "--device", "2", "--arg", "f32[4]=1", "--arg", "f32[4]=2",
                             "--json"))["results"][0]["device"] == 2


def test_bytecode_and_text_from_a_pipe(daemon: Daemon) -> None:
    text = ADD.read_bytes()
    assert output(daemon, "run", "-", "--arg", "f32[4]=1", "--arg", "f32[4]=1", stdin=text) == "f32[4]=2,2,2,2\n"


def test_an_endless_program_ends_at_its_deadline() -> None:
    with Daemon() as daemon:
        done = ctl(daemon, "run", FOREVER, "--arg", "s32[]=3", "--deadline", "0.5")
        assert done.returncode == 1
        assert done.stderr.startswith("pjrtctl: DEADLINE_EXCEEDED: ")


# -- numpy's files --------------------------------------------------------------


@pytest.mark.parametrize("descr", ["<f4", ">f4", "<i2", ">i8", "|u1", "<c8", ">c16", "|b1", ">f2", "<u8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_of_any_byte_order_and_memory_order(daemon: Daemon, tmp_path: pathlib.Path, descr: str,
                                                      order: str) -> None:
    values = (np.arange(24).reshape(2, 3, 4) % 2 == 0) if descr == "|b1" else np.arange(24).reshape(2, 3, 4)
    array = np.asarray(values.astype(descr), order=order)
    np.save(tmp_path / "x.npy", array)
    name = next(name for name, (known, _) in TYPES.items() if np.dtype(known) == array.dtype.newbyteorder("="))
    output(daemon, "run", "-", "--arg", f"@{tmp_path / 'x.npy'}", "--save", tmp_path / "o.npz",
           stdin=identity(TYPES[name][1], (2, 3, 4)))
    saved = np.load(tmp_path / "o.npz")["output_0"]
    assert saved.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(saved, array)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_versions(daemon: Daemon, tmp_path: pathlib.Path, version: tuple[int, int]) -> None:
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, np.array([[1, 2], [3, 4]], "f4"), version=version)
    assert output(daemon, "run", "-", "--arg", f"f32[2,2]=@{tmp_path / 'x.npy'}", stdin=identity("f32", (2, 2))) == \
        "f32[2,2]=1,2,3,4\n"


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (1, 1, 1, 2)])
def test_npy_shapes(daemon: Daemon, tmp_path: pathlib.Path, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, "f8")
    np.save(tmp_path / "x.npy", array)
    output(daemon, "run", "-", "--arg", f"@{tmp_path / 'x.npy'}", "--save", tmp_path / "o.npz",
           stdin=identity("f64", shape))
    saved = np.load(tmp_path / "o.npz")["output_0"]
    assert saved.shape == shape
    assert saved.tobytes() == array.tobytes()


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_saved_and_read_again(daemon: Daemon, tmp_path: pathlib.Path, name: str) -> None:
    numpy_type, mlir = TYPES[name]
    array = np.array([0, 1, 1, 0], np.float32).astype(numpy_type) if name != "f8e8m0fnu" else \
        np.array([1, 2, 4, 1], np.float32).astype(numpy_type)
    np.save(tmp_path / "x.npy", array)
    done = ctl(daemon, "run", "-", "--arg", f"{name}[4]=@{tmp_path / 'x.npy'}", "--save", tmp_path / "o.npz",
               stdin=identity(mlir, (4,)))
    assert done.returncode == 0, done.stderr
    saved = np.load(tmp_path / "o.npz")["output_0"]
    assert saved.tobytes() == array.tobytes()
    known = np.dtype(numpy_type).isbuiltin == 1
    small_integer = name in ("s4", "u4", "s2", "u2")
    assert (saved.dtype == array.dtype) == known
    assert ("note: numpy has no " + name in done.stderr) == (not known and not small_integer)
    if small_integer:
        assert saved.dtype == (np.int8 if name[0] == "s" else np.uint8)
    with zipfile.ZipFile(tmp_path / "o.npz") as archive:
        assert archive.testzip() is None
        (tmp_path / "again.npy").write_bytes(archive.read("output_0.npy"))
    assert output(daemon, "run", "-", "--arg", f"{name}[4]=@{tmp_path / 'again.npy'}", stdin=identity(mlir, (4,))) == \
        done.stdout


def test_results_are_saved_by_number_and_the_file_appears_whole(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    two = ("func.func @main(%x: tensor<2xf32>, %i: tensor<3xi64>) -> (tensor<3xi64>, tensor<2xf32>) {"
           " return %i, %x : tensor<3xi64>, tensor<2xf32> }")
    output(daemon, "run", "-", "--arg", "f32[2]=1,2", "--arg", "s64[3]=1,2,3", "--save", tmp_path / "o.npz", stdin=two)
    saved = np.load(tmp_path / "o.npz")
    assert sorted(saved) == ["output_0", "output_1"]
    np.testing.assert_array_equal(saved["output_0"], np.array([1, 2, 3]))
    np.testing.assert_array_equal(saved["output_1"], np.array([1, 2], "f4"))
    assert os.listdir(tmp_path) == ["o.npz"]
    done = ctl(daemon, "run", "-", "--arg", "f32[2]=1,2", "--arg", "s64[3]=1,2,3", "--save", tmp_path / "no" / "o.npz",
               stdin=two)
    assert done.returncode == 4
    assert "No such file or directory" in done.stderr


def npy(header: str, data: bytes = b"", magic: bytes = b"\x93NUMPY\x01\x00") -> bytes:
    return magic + struct.pack("<H", len(header)) + header.encode() + data


@pytest.mark.parametrize(("content", "said"), [
    (b"", "it is no .npy file"),
    (b"PK\x03\x04 and more of it", "it is no .npy file"),
    (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", bytes(16), b"\x93NUMPY\x09\x00"),
     "version 9.0 of .npy is not known"),
    (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", bytes(16))[:40], "it is cut short"),
    (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", bytes(15)),
     "it has 15 bytes of data, and its shape needs 16"),
    (npy("{'descr': '|O', 'fortran_order': False, 'shape': (4,), }", bytes(16)), "the header is not what numpy writes"),
    (npy("{'descr': '<M8', 'fortran_order': False, 'shape': (4,), }", bytes(32)), 'numpy type "<M8" cannot be used'),
    (npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,), }", bytes(16)), "structured arrays"),
    (npy("{'descr': '<f4', 'shape': (4,), }", bytes(16)), "the header is not complete"),
    (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-4,), }", bytes(16)), "the header is not what"),
    (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }"), "its shape is impossible"),
    (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", bytes(16)),
     "the file has f32[2,2], not f32[4]"),
    (npy("{'descr': '<i4', 'fortran_order': False, 'shape': (4,), }", bytes(16)), "the file has s32[4], not f32[4]"),
    (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 65 + "), }", bytes(4)), "the header is not what"),
    (npy("{" * 1000), "the header is not what numpy writes"),
])
def test_a_bad_npy_file_is_named_with_what_is_wrong(tmp_path: pathlib.Path, content: bytes, said: str) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    done = ctl(None, "run", ADD, "--arg", f"f32[4]=@{tmp_path / 'x.npy'}", env=environment("unix:/nonexistent/s"))
    assert done.returncode == 4, done.stderr
    assert said in done.stderr
    assert "x.npy" in done.stderr


# -- errors and exit statuses -----------------------------------------------------


def test_a_refused_request_is_1_with_code_message_and_json(daemon: Daemon) -> None:
    done = ctl(daemon, "run", ADD, "--arg", "s32[4]=1", "--arg", "f32[4]=2", "--json")
    assert done.returncode == 1
    first = done.stderr.splitlines()[0]
    assert first.startswith("pjrtctl: INVALID_ARGUMENT: ")
    assert "f32[4]" in done.stderr and "s32[4]" in done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "INVALID_ARGUMENT"
    assert first == "pjrtctl: INVALID_ARGUMENT: " + error["message"].splitlines()[0]
    assert error["argument"]["index"] == 0


def test_a_program_that_does_not_parse_shows_the_whole_message(daemon: Daemon) -> None:
    done = ctl(daemon, "compile", "-", stdin="func.func @main() { gibberish }")
    assert done.returncode == 1
    assert done.stderr.startswith("pjrtctl: INVALID_ARGUMENT: ")
    assert "gibberish" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(("args", "said"), [
    (["frobnicate"], "unknown command frobnicate"),
    (["info", "--frobnicate"], "unknown option --frobnicate"),
    (["--frobnicate"], "unknown option --frobnicate"),
    (["info", "extra"], 'unexpected argument "extra"'),
    (["run"], "run needs a FILE"),
    (["compile"], "compile needs a FILE"),
    (["compile", "a", "b"], 'unexpected argument "b"'),
    (["run", "x", "--arg"], "--arg needs ARGUMENT"),
    (["run", "x", "--full=yes"], "--full takes no value"),
    (["run", "x", "--device", "one"], '--device: "one" is not a number'),
    (["run", "x", "--replicas", "0"], '--replicas: "0" is not a number from 1'),
    (["run", "x", "--deadline", "-1"], '--deadline: "-1" is not a number of seconds'),
    (["run", "x", "--deadline", "nan"], '--deadline: "nan" is not a number of seconds'),
    (["run", "x", "--xla", "novalue"], '--xla: "novalue" is not NAME=VALUE'),
])
def test_a_wrong_command_line_is_2(args: list[str], said: str) -> None:
    done = ctl(None, *args)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_the_wrong_number_of_arguments_is_2(daemon: Daemon) -> None:
    done = ctl(daemon, "run", ADD, "--arg", "f32[4]=1")
    assert done.returncode == 2
    assert "the program takes 2 arguments, and 1 came" in done.stderr


def test_no_server_is_3_and_says_what_to_do() -> None:
    done = ctl(None, "info", "--target", "unix:/nonexistent/s", "--json")
    assert done.returncode == 3
    assert done.stderr == ("pjrtctl: UNAVAILABLE: cannot connect to unix:/nonexistent/s: there is no such socket\n"
                           "hint: start pjrtd, or set PJRTD_TARGET to where it listens (its line \"pjrtd ready ...\")\n")
    assert json.loads(done.stdout)["error"]["code"] == "UNAVAILABLE"
    assert ctl(None, "stats", env=environment("grpc://localhost:7578")).returncode == 3


def test_a_target_that_is_none_is_2_and_explained() -> None:
    done = ctl(None, "info", env=environment("/usr/lib/pjrt_plugin.so"))
    assert done.returncode == 2
    assert "is a plugin's file, not a target" in done.stderr
    assert "hint: " in done.stderr


def test_a_file_that_is_not_there_is_4(daemon: Daemon) -> None:
    for args in (["compile", "/nonexistent.mlir"], ["run", ADD, "--arg", "@/nonexistent.npy"]):
        done = ctl(daemon, *args)
        assert done.returncode == 4
        assert "/nonexistent" in done.stderr


def test_output_that_cannot_be_written_is_4(daemon: Daemon) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([str(pjrtctl_path()), "info"], stdout=full, stderr=subprocess.PIPE,
                              env=environment(daemon.target))
    assert done.returncode == 4
    assert b"standard output cannot be written" in done.stderr


# -- info, devices, stats, compile, version ------------------------------------------


def test_info(daemon: Daemon) -> None:
    text = output(daemon, "info")
    assert re.search(rf"^target +{re.escape(daemon.target)}$", text, re.M)
    assert re.search(rf"^server +pjrtd [\d.]+, pid {daemon.pid}, up ", text, re.M)
    assert re.search(r"^PJRT +0\.\d+ \(pjrtd was built for 0\.\d+\)$", text, re.M)
    assert re.search(r"^platform +cpu", text, re.M)
    info = json.loads(output(daemon, "info", "--json"))
    assert info["target"] == daemon.target
    assert info["pid"] == daemon.pid
    assert info["platform_name"] == "cpu"
    assert info["num_devices"] == 4
    assert info["pjrt"]["major"] == 0
    assert int(info["server_epoch"]) > 0
    assert info["plugin_path"].endswith(".so")
    assert info["stablehlo"]["current"].count(".") == 2
    assert info == json.loads(output(daemon, "--json", "info")) | {"uptime_ns": info["uptime_ns"]}
    assert info == json.loads(ctl(None, "--target", daemon.target, "info", "--json").stdout) | \
        {"uptime_ns": info["uptime_ns"]}


def test_devices(daemon: Daemon) -> None:
    lines = output(daemon, "devices").splitlines()
    assert lines[0].split() == ["ID", "KIND", "PROCESS", "ADDRESSABLE", "USED", "LIMIT", "MEMORIES"]
    assert [line.split()[:2] for line in lines[1:]] == [[str(i), "cpu"] for i in range(4)]
    told = json.loads(output(daemon, "devices", "--json"))
    assert [device["id"] for device in told["devices"]] == [0, 1, 2, 3]
    kinds = {memory["id"]: memory["kind"] for memory in told["memories"]}
    for device in told["devices"]:
        assert device["kind"] == "cpu" and device["addressable"] is True
        assert device["default_memory"] in device["memories"]
        assert all(memory in kinds for memory in device["memories"])


def test_stats(daemon: Daemon) -> None:
    before = json.loads(output(daemon, "stats", "--json"))
    output(daemon, "run", ADD, "--arg", "f32[4]=1", "--arg", "f32[4]=1")
    after = json.loads(output(daemon, "stats", "--json"))
    assert after["compiles"] + after["connections_total"] > before["compiles"] + before["connections_total"]
    assert after["executes_on_loop"] + after["executes_on_lane"] == \
        before["executes_on_loop"] + before["executes_on_lane"] + 1
    assert [lane["device"] for lane in after["lanes"]] == [0, 1, 2, 3]
    text = output(daemon, "stats")
    assert re.search(r"^connections +1$", text, re.M)
    assert re.search(r"^resident memory +[\d.]+ MiB$", text, re.M)


def test_compile_describes_the_program(daemon: Daemon) -> None:
    donating = ("func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %n: tensor<i32>) -> tensor<4xf32> {"
                " return %x : tensor<4xf32> }")
    text = output(daemon, "compile", "-", stdin=donating)
    assert re.search(r"^argument 0 +f32\[4\], donated$", text, re.M)
    assert re.search(r"^argument 1 +s32\[\]$", text, re.M)
    assert re.search(r"^result 0 +f32\[4\]$", text, re.M)
    told = json.loads(output(daemon, "compile", "-", "--json", "--device", "3", stdin=donating))
    assert [(arg["type"], arg["donated"]) for arg in told["args"]] == [("f32[4]", True), ("s32[]", False)]
    assert [out["dims"] for out in told["outputs"]] == [[4]]
    assert told["devices"] == [3]
    assert told["compile_ns"] > 0


def test_options_of_xla_are_passed_on(daemon: Daemon) -> None:
    assert output(daemon, "run", ADD, "--arg", "f32[4]=1", "--arg", "f32[4]=1",
                  "--xla", "xla_cpu_enable_fast_math=true") == "f32[4]=2,2,2,2\n"
    done = ctl(daemon, "compile", ADD, "--xla", "xla_no_such_flag=1")
    assert done.returncode == 1
    assert "xla_no_such_flag" in done.stderr


def test_run_json_has_values_as_json_can_hold_them(daemon: Daemon) -> None:
    def values(dtype: str, given: str) -> list[object]:
        count = given.count(",") + 1
        told = json.loads(output(daemon, "run", "-", "--json", "--arg", f"{dtype}[{count}]={given}",
                                 stdin=identity(TYPES[dtype][1], (count,))))
        (result,) = told["results"]
        assert (result["dtype"], result["dims"], result["type"]) == (dtype, [count], f"{dtype}[{count}]")
        assert told["execute_ns"] > 0
        return result["values"]

    assert values("f32", "0.1,nan,inf,-inf") == [0.1, "nan", "inf", "-inf"]
    assert values("u64", "18446744073709551615,1") == ["18446744073709551615", 1]
    assert values("s4", "-8,7") == [-8, 7]
    assert values("pred", "true,false") == [True, False]
    assert values("c64", "1+2j,nan-1j") == [[1, 2], ["nan", -1]]
    assert values("f8e5m2", "0.1,57344") == [0.09375, 57344]


def test_version_and_help() -> None:
    done = ctl(None, "version")
    assert re.fullmatch(r"pjrtctl \d+\.\d+\.\d+, libpjrtc \d+\.\d+\.\d+\n", done.stdout)
    assert ctl(None, "--version").stdout == done.stdout
    text = ctl(None, "--help").stdout
    for command in ("info", "devices", "stats", "session", "slot", "compile", "run", "version"):
        assert f"pjrtctl {command}" in text
        if command != "version":
            shown = ctl(None, command, "--help")
            assert shown.returncode == 0 and shown.stdout.startswith(f"pjrtctl {command}")
    assert ctl(None).returncode == 2


# -- terminals ------------------------------------------------------------------------


def on_terminal(daemon: Daemon, *args: object, columns: int = 60, stdin: str = "", **extra: str) -> str:
    """What is shown on a terminal of that width."""
    parent, child = pty.openpty()
    import fcntl
    import termios
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {name: value for name, value in environment(daemon.target, **extra).items()
           if name != "NO_COLOR" or name in extra}
    process = subprocess.Popen([str(pjrtctl_path()), *map(str, args)], stdin=subprocess.PIPE, stdout=child, env=env)
    os.close(child)
    assert process.stdin is not None
    process.stdin.write(stdin.encode())
    process.stdin.close()
    shown = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(parent)
    assert process.wait(60) == 0
    return shown.decode().replace("\r\n", "\n")


def test_a_terminal_gets_lines_that_fit_and_bold_headings(daemon: Daemon) -> None:
    shown = on_terminal(daemon, "info", columns=60)
    assert max(map(len, shown.splitlines())) <= 60
    assert "\033[1m" in on_terminal(daemon, "devices")
    assert "\033" not in on_terminal(daemon, "devices", NO_COLOR="1")
    assert "\033" not in output(daemon, "devices")


def test_long_results_are_cut_on_a_terminal_only(daemon: Daemon) -> None:
    text, arg = identity("s32", (1000,)).replace("s32", "i32"), "s32[1000]=7"
    shown = on_terminal(daemon, "run", "-", "--arg", arg, stdin=text)
    assert shown == "s32[1000]=" + ",".join(["7"] * 64) + ",... (1000 elements; --full shows all)\n"
    whole = "s32[1000]=" + ",".join(["7"] * 1000) + "\n"
    assert on_terminal(daemon, "run", "-", "--full", "--arg", arg, stdin=text) == whole
    assert output(daemon, "run", "-", "--arg", arg, stdin=text) == whole


# -- what is installed -------------------------------------------------------------------


@pytest.mark.parametrize("page", ["tools/pjrtctl.1", "src/pjrtc.3"])
def test_the_man_pages_have_no_warnings(page: str) -> None:
    done = subprocess.run(["man", "--warnings", "--encoding=UTF-8", "--local-file", str(CLIENT / page)],
                          capture_output=True, text=True, env=clean_environment({"MANWIDTH": "100", "LC_ALL": "C.UTF-8"}))
    assert done.returncode == 0
    assert done.stderr == ""
    assert "SYNOPSIS" in done.stdout


def test_the_man_page_names_every_option_and_command() -> None:
    text = (CLIENT / "tools" / "pjrtctl.1").read_text().replace("\\-", "-")
    usage = ctl(None, "--help").stdout
    for name in set(re.findall(r"--[a-z]+", usage)) - {"--help"}:
        assert name in text, f"{name} is not in the man page"


def complete(*words: str) -> list[str]:
    """What bash offers for the last word."""
    script = (f"source {CLIENT / 'tools' / 'pjrtctl.bash'}; COMP_WORDS=({' '.join(words)} ); "
              f"COMP_CWORD={len(words) - 1}; _pjrtctl; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    script = script.replace(" )", ' "")' if words[-1] == '""' else ")")
    done = subprocess.run(["bash", "-c", script.replace('"" "")', '"")')], capture_output=True, text=True)
    return done.stdout.split()


def test_bash_completes_commands_and_options() -> None:
    assert complete("pjrtctl", "d") == ["devices"]
    assert set(complete("pjrtctl", '""')) >= {"info", "devices", "stats", "compile", "run", "version"}
    assert set(complete("pjrtctl", "run", "--")) >= {"--arg", "--save", "--device", "--json", "--target"}
    assert "--arg" not in complete("pjrtctl", "info", "--")
    assert complete("pjrtctl", "run", "x", "--arg", "bf") == ["bf16["]


def test_what_is_installed_builds_and_runs_programs(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    build = binary_path().parent.parent
    subprocess.run(["cmake", "--install", str(build), "--prefix", str(tmp_path)], check=True, capture_output=True)
    library = next(tmp_path.rglob("libpjrtc.so"))
    assert (tmp_path / "share" / "man" / "man1" / "pjrtctl.1").is_file()
    assert (tmp_path / "share" / "bash-completion" / "completions" / "pjrtctl").is_file()
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "pjrtc"], check=True, capture_output=True, text=True,
                           env=clean_environment({"PKG_CONFIG_PATH": str(library.parent / "pkgconfig")})).stdout.split()
    (include,) = [flag[2:] for flag in flags if flag.startswith("-I")]
    assert os.path.samefile(include, tmp_path / "include")
    sanitizer = re.search(r"^PJRTD_SANITIZE:STRING=(\S+)$", (build / "CMakeCache.txt").read_text(), re.M)
    if sanitizer:
        flags.append(f"-fsanitize={sanitizer[1]}")
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c11", str(CLIENT / "examples" / "hello.c"),
                    *flags, "-o", str(tmp_path / "hello")], check=True)
    env = environment(daemon.target, LD_LIBRARY_PATH=str(library.parent),
                      **{name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")})
    assert subprocess.run([str(tmp_path / "hello")], check=True, capture_output=True, env=env).stdout == b"11 22 33 44\n"
    # The installed pjrtctl finds its library by itself.
    shown = subprocess.run([str(tmp_path / "bin" / "pjrtctl"), "info"], check=True, capture_output=True,
                           env=environment(daemon.target)).stdout
    assert daemon.target.encode() in shown


def test_the_header_is_c_and_cpp_by_itself(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.c").write_text("#include <pjrtc/pjrtc.h>\npjrtc_error e = PJRTC_ERROR_INIT;\n"
                                  "pjrtc_connect_options o = PJRTC_CONNECT_OPTIONS_INIT;\n")
    (tmp_path / "t.cc").write_text((tmp_path / "t.c").read_text())
    for command in (["cc", "-std=c99"], ["cc", "-std=c17"], ["c++", "-std=c++11"], ["c++", "-std=c++20"]):
        suffix = "t.cc" if command[0] == "c++" else "t.c"
        subprocess.run([*command, "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wno-missing-field-initializers",
                        "-fsyntax-only", f"-I{CLIENT / 'include'}", str(tmp_path / suffix)], check=True)
