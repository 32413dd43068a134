"""How samples of `perf` are shared out: which part of a request's time each of them is."""

import pytest

from benchmarks.profile import COMPILED, CRC, INTERPRETER, LIBRARY, OTHER_SYSTEM, C, chains, group_of

KERNEL = "([kernel.kallsyms])"
TEXT = f"""
    ffffffff81b6a330 _copy_to_iter {KERNEL}
    ffffffff8200fa48 tcp_recvmsg_locked {KERNEL}
    ffffffff81e2edd0 __x64_sys_recvfrom {KERNEL}
    ffffffff821ecc51 do_syscall_64 {KERNEL}
              10a974 __libc_recv (/usr/lib/libc.so.6)


    ffffffff81b6d74d copy_folio_from_iter_atomic {KERNEL}
    ffffffff816b7b89 do_pwritev {KERNEL}
    ffffffff821ecc51 do_syscall_64 {KERNEL}
               fe261 pwritev64v2 (/usr/lib/libc.so.6)

        7f1 _PyEval_EvalFrameDefault+0x12 (/usr/lib/libpython3.11.so.1.0)
        7f2 Py_BytesMain (/usr/lib/libpython3.11.so.1.0)

"""


def test_chains_are_read_innermost_first() -> None:
    found = list(chains(TEXT))
    assert [chain[0].symbol for chain in found] == [
        "_copy_to_iter", "copy_folio_from_iter_atomic", "_PyEval_EvalFrameDefault",
    ]  # fmt: skip
    assert [len(chain) for chain in found] == [5, 4, 2]
    assert [group_of(chain) for chain in found] == ["system: receive", "system: append", INTERPRETER]


@pytest.mark.parametrize(
    ("line", "group"),
    [
        (f"1 handle_softirqs {KERNEL}", OTHER_SYSTEM),
        ("1 crc32c_by_instruction (/x/compiled/produce_run.cpython-311.so)", CRC),
        ("1 find (/x/compiled/produce_run.cpython-311.so)", COMPILED),
        ("1 take (/x/compiled/bundle_kernel.cpython-311.so)", COMPILED),
        ("1 CPyDef_receive (/x/compiled/kernel__mypyc.cpython-311.so)", COMPILED),
        ("1 crc32 (/x/fastcrc.cpython-311.so)", CRC),
        ("1 crc32c_by_instruction (/x/out/bench/tankceil)", CRC),
        ("1 stage (/x/out/bench/tankceil)", C),
        ("1 __memmove_avx_unaligned_erms (/usr/lib/libc.so.6)", LIBRARY),
        ("1 array_join (/usr/lib/python3.11/lib-dynload/array.so)", INTERPRETER),
    ],
)
def test_time_outside_of_calls_goes_to_whose_code_it_is(line: str, group: str) -> None:
    assert [group_of(chain) for chain in chains(f"\t{line}\n\n")] == [group]
