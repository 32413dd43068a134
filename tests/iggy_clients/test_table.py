"""The table of what stock clients did."""

from tests.iggy_clients.table import BEGIN, END, table, with_table

WALKED = {"old 1": {"connects": "", "logs in": "RuntimeError"}, "new 2": {"connects": "", "pings": ""}}


def test_each_step_has_a_row_and_each_package_a_column() -> None:
    assert table(WALKED).splitlines() == [
        "| step | old 1 | new 2 |",
        "| --- | --- | --- |",
        "| connects | yes | yes |",
        "| logs in | **no** | – |",
        "| pings | – | yes |",
    ]


def test_a_page_keeps_what_is_around_the_table() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert with_table(page, WALKED) == f"before\n{BEGIN}\n{table(WALKED)}\n{END}\nafter\n"
