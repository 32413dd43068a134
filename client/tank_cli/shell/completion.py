"""`tank completion bash|zsh|fish`."""

import click

HOW = {
    "bash": 'eval "$(tank completion bash)"          # or put it into ~/.bashrc',
    "zsh": 'eval "$(tank completion zsh)"           # or put it into ~/.zshrc',
    "fish": "tank completion fish > ~/.config/fish/completions/tank.fish",
}


@click.command(epilog="\b\n" + "\n".join(HOW.values()))
@click.argument("shell", type=click.Choice(list(HOW)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands, options and the broker's topics.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click knows the shells that we offer"
    script = kind(ctx.find_root().command, {}, "tank", "_TANK_COMPLETE")
    click.echo(script.source())
