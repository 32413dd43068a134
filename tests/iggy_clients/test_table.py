"""The tables of what stock clients did."""

from tests.iggy_clients.table import BEGIN, END, Walked, tables, with_tables

OLD = Walked("old 1", "Python", {"connects": "", "logs in": "RuntimeError"})
NEW = Walked(
    "new 2", "Python", {"connects": "", "pings": "", "flies": "no wings"}, {"flies": "it has no wings"}
)
OTHER = Walked("other 3", "Java", {"connects": ""})


def test_each_step_has_a_row_and_each_client_a_column_in_the_table_of_its_kind() -> None:
    assert tables([OLD, NEW, OTHER], {"C#": "there is no runtime"}, 1).splitlines() == [
        "3 clients against one broker: 6 steps, 1 failed.",
        "",
        "### Python",
        "",
        "| step | old 1 | new 2 |",
        "| --- | --- | --- |",
        "| connects | yes | yes |",
        "| logs in | **no** | – |",
        "| pings | – | yes |",
        "| flies | – | no (1) |",
        "",
        "1. it has no wings.",
        "",
        "### Java",
        "",
        "| step | other 3 |",
        "| --- | --- |",
        "| connects | yes |",
        "",
        "Not run:",
        "",
        "- C#: there is no runtime.",
    ]


def test_a_step_that_can_not_go_well_and_does_is_a_failure() -> None:
    assert OLD.failures() == {"logs in": "RuntimeError"}
    assert NEW.failures() == {}
    flew = Walked("new 2", "Python", {"flies": ""}, NEW.cannot)
    assert list(flew.failures()) == ["flies"]


def test_a_page_keeps_what_is_around_the_tables() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert with_tables(page, "shown") == f"before\n{BEGIN}\nshown\n{END}\nafter\n"
