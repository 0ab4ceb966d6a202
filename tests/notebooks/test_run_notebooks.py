"""`make notebooks` runs what it is given."""

import pytest

from rope_lab.run_notebooks import main


@pytest.mark.parametrize("name", ["--all", "nowhere.ipynb"])
def test_what_is_no_notebook_is_refused_in_a_sentence(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name])
    assert ended.value.code == 2
    assert name in capsys.readouterr().err
