"""`python -m tank_cli`: the `tank` command."""

from tank_cli.main import main

if __name__ == "__main__":
    main(prog_name="tank")
