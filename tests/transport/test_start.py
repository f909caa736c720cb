"""What sudo, the shell and Python say, and how it is told."""

import pytest

from gpuplan.transport.pipe import explain_start


@pytest.mark.parametrize(
    ("said", "summary"),
    [
        ("sudo: a password is required\n", "sudo asks for a password"),
        ("sudo: a terminal is required to read the password; either use the -S option", "sudo asks for a password"),
        ("sudo: no tty present and no askpass program specified", "sudo asks for a password"),
        ("sudo: sorry, you must have a tty to run sudo", "sudo asks for a password"),
        ("guest is not in the sudoers file.", "sudo denied the command"),
        ("Sorry, user ops is not allowed to execute '/usr/bin/python3' as root on n.", "sudo denied the command"),
        ("sudo: python3: command not found", "Python is missing on the node"),
        ("env: 'python3': No such file or directory", "Python is missing on the node"),
        ("env: \u2018/opt/python\u2019: No such file or directory", "Python is missing on the node"),
        ("env: 'sudo': No such file or directory", "sudo is missing on the node"),
        ("This account is currently not available.", "The SSH user has no login shell"),
        ("Segmentation fault", "The agent did not start"),
        ("", "The agent did not start"),
    ],
)
def test_each_has_its_own_words(said: str, summary: str) -> None:
    found = explain_start("gpu-a1", 1, said)
    assert found.summary == summary
    assert said.strip() in found.detail
    assert found.fix
    assert found.address == "gpu-a1"
