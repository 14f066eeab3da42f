"""conf/, the command line and the schema agree, and a mistake is told once, well and quickly."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import kevolve
from kevolve import paths
from kevolve.config import Config
from kevolve.configuration import load_config
from kevolve.configuration.help import help_text
from kevolve.configuration.schema import as_yaml, flat_values, keys, sections
from kevolve.configuration.tree import GROUPS, folders, options
from kevolve.configuration.validate import flatten
from kevolve.errors import UsageError
from kevolve.operators.registry import operator_names
from kevolve.propose.llm.models import Price, prices, shares


def complaint(*arguments: str, config_dir: Path | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        load_config(arguments, str(config_dir) if config_dir else None)
    return str(caught.value)


def own_tree(folder: Path, **files: str) -> Path:
    """A user's own conf tree: `experiment__mine="..."` is experiment/mine.yaml."""
    for name, text in files.items():
        file = folder / f"{name.replace('__', '/')}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


# What works


def test_the_experiment_of_the_main_job_composes() -> None:
    config = load_config(["+experiment=jagged_ops"])
    assert config.experiment == "jagged_ops"
    assert sorted(config.operators) == [name for name in operator_names() if "jagged" in name]
    assert len(config.operators) == 8
    assert config.budget.minutes <= 9.5  # within ten minutes, start and end included
    assert (config.device.name, config.proposer.name, config.policy.name) == ("auto", "genetic", "islands")


def test_the_first_look_waits_for_no_compiler_and_ends_within_90_seconds() -> None:
    config = load_config(["+experiment=quick"])
    assert config.judge.baselines == "eager"
    assert config.budget.minutes <= 1.4


def test_a_forgotten_plus_sign_works() -> None:
    assert load_config(["experiment=jagged_ops", "seed=3"]) == load_config(["+experiment=jagged_ops", "seed=3"])


def test_the_command_line_wins_and_types_are_the_schemas() -> None:
    config = load_config(["budget.minutes=2", "device=cpu", "operators=[jagged_sum]", "name=007", "cluster.cpus=null"])
    assert config.budget.minutes == 2.0
    assert isinstance(config.budget.minutes, float)
    assert (config.device.name, config.operators, config.name, config.cluster.cpus) == (
        "cpu",
        ["jagged_sum"],
        "007",
        None,
    )


def test_an_address_with_characters_of_its_own_is_taken_as_it_is() -> None:
    uri = "postgresql://me:pa$$@db:5432/mlflow?sslmode=require&application_name=k"
    assert load_config([f"tracking.uri={uri}"]).tracking.uri == uri


def test_a_tree_of_ones_own_adds_experiments_and_options(tmp_path: Path) -> None:
    own = own_tree(
        tmp_path,
        experiment__mine="# @package _global_\ndefaults:\n  - override /judge: brief\noperators: [jagged_sum]\n",
        judge__brief="max_pairs: 7\n",
    )
    config = load_config(["+experiment=mine"], str(own))
    assert (config.experiment, config.operators, config.judge.max_pairs) == ("mine", ["jagged_sum"], 7)
    assert config.judge.confirm_pairs == Config().judge.confirm_pairs
    assert load_config(["+experiment=jagged_ops"], str(own)).experiment == "jagged_ops"


def test_a_tree_of_ones_own_cannot_change_what_a_name_means(tmp_path: Path) -> None:
    own = own_tree(tmp_path, judge__standard="max_pairs: 7\n")
    assert "kevolve has its own judge/standard.yaml. Give yours another name." in complaint(config_dir=own)


def test_a_printed_configuration_reads_back_the_same() -> None:
    config = load_config(["+experiment=jagged_ops", "lanes=2"])
    assert flatten(yaml.safe_load(as_yaml(config))) == flat_values(config)


@pytest.fixture
def stopped_run(tmp_path: Path) -> str:
    """A run that was started with two lanes and 5 evaluations; gives the override that finds it."""
    config = load_config(["+experiment=jagged_ops", "lanes=2", "budget.evaluations=5", "name=mine"])
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.yaml").write_text(as_yaml(config))
    (folder / "events.jsonl").touch()
    return f"runs_dir={tmp_path}"


def test_a_run_is_resumed_by_its_name_alone(stopped_run: str) -> None:
    config = load_config(["resume=true", "name=mine", stopped_run, "budget.evaluations=9"])
    assert (config.experiment, config.lanes, config.budget.evaluations, config.resume) == ("jagged_ops", 2, 9, True)


def test_resuming_what_is_not_there_lists_what_is(stopped_run: str) -> None:
    assert "Did you mean mine? Runs here: mine." in complaint("resume=true", "name=mime", stopped_run)
    assert "Type name=RUN. Runs in" in complaint("resume=true", stopped_run)


# What is refused, and how


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        (
            "budget.minuts=5",
            "there is no key budget.minuts. Did you mean budget.minutes? Keys of budget: evaluations, minutes",
        ),
        ("sead=1", "there is no key sead. Did you mean seed?"),
        ("budget=5", "budget is a section. Its keys: budget.evaluations, budget.minutes"),
        ("+experiment=jaged_ops", "conf/experiment/jaged_ops.yaml does not exist. Did you mean jagged_ops?"),
        ("device=hexagon", "conf/device/hexagon.yaml does not exist. Devices here: auto, cpu, cuda, mtia, rocm."),
        ("policy.name=isles", "no policy is called isles. Did you mean islands?"),
        ("proposer.name=gentic", "no proposer is called gentic. Did you mean genetic?"),
        ("device.name=gpu", "no device is called gpu."),
        ("proposer=llm", "proposer=llm needs a model. Type proposer.models=[PROVIDER/MODEL]"),
        ("proposer.memory=sibling", "must be both or parent or siblings or none. Did you mean siblings?"),
        ("operators=[jagged_sum,jaged_softmax]", "no operator is called jaged_softmax. Did you mean jagged_softmax?"),
        ("operators=[jagged_sum,jagged_sum]", "names jagged_sum twice"),
        ("operators=[]", "names no operator"),
        ("languages=[cuda,tritn]", "no language is called tritn. Did you mean triton?"),
        ("operators=jagged_sum", "must be a list of names. Type operators=[jagged_sum,jagged_softmax]"),
        ("operators=jagged_sum,jagged_softmax", "not a sweep. Type operators=[jagged_sum,jagged_softmax]"),
        ("seed=abc", "must be a whole number. Type seed=0"),
        ("seed=1.5", "must be a whole number"),
        ("seed=-1", "must be at least 0"),
        ("lanes=0", "must be at least 1"),
        ("budget.minutes=true", "must be a number"),
        ("budget.minutes=-1", "must be more than 0"),
        ("budget.minutes=nan", "must be a number"),
        ("policy.draft_rate=1.5", "must be from 0 to 1"),
        ("policy.crossover_rate=0.95", "together they are shares"),
        ("policy.migrants=9", "an island keeps only 4"),
        ("tracking.enabled=1", "must be true or false"),
        ("require=beter", "must be better or null. Did you mean better?"),
        ("judge.sandbox=bwarp", "Did you mean bwrap?"),
        ("name=../up", "it names a folder"),
        ("jagged_ops", "Type +experiment=jagged_ops."),
        ("seed=[1", "cannot be read"),
        ("seed=${nope}", "Interpolation key 'nope' not found"),
        ("~seed", "a key cannot be taken away"),
    ],
)
def test_a_mistake_is_told_with_what_to_type_instead(argument: str, told: str) -> None:
    assert told in complaint(argument)


def test_all_mistakes_are_told_at_once() -> None:
    text = complaint("+experiment=jaged_ops", "budget.minuts=5", "lanes=0", "operators=[jagged_summ]", "device=tpu")
    assert text.startswith("5 things are wrong")
    for part in ("jaged_ops", "budget.minuts", "lanes=0", "jagged_summ", "device=tpu"):
        assert part in text


def test_a_mistake_in_a_file_names_the_file(tmp_path: Path) -> None:
    own = own_tree(
        tmp_path,
        experiment__mine="# @package _global_\nbudgt: {minutes: 1}\nlanes: many\n",
        policy__many="name: islands\npopulaton: 9\n",
    )
    text = complaint("+experiment=mine", "policy=many", config_dir=own)
    assert f"{own}/experiment/mine.yaml: budgt=..." in text.replace("{'minutes': 1}", "...")
    assert f"{own}/experiment/mine.yaml: lanes=many: must be a whole number" in text
    assert f"{own}/policy/many.yaml: policy.populaton=9: there is no key policy.populaton. Did you mean" in text


def test_a_broken_file_is_no_traceback(tmp_path: Path) -> None:
    assert "conf/ cannot be composed" in complaint(
        "+experiment=mine", config_dir=own_tree(tmp_path, experiment__mine="# @package _global_\nlanes: [1\n")
    )
    assert "there is no such folder" in complaint(config_dir=tmp_path / "nowhere")


# The schema, conf/ and the code agree


def test_help_names_every_group_and_key() -> None:
    text = help_text(folders(None))
    for group in GROUPS:
        assert group in text
        assert all(option in text for option in options(group, folders(None)))
    for name, key in keys().items():
        assert f"  {name}=" in text
        assert key.meaning in text


def conf_files() -> Iterator[tuple[str, dict[str, object]]]:
    """Every file that composes into a `Config`, with its keys as the schema writes them."""
    yield "config", flatten(yaml.safe_load((paths.conf_dir() / "config.yaml").read_text()))
    for group in GROUPS:
        for file in sorted((paths.conf_dir() / group).glob("*.yaml")):
            content = flatten(yaml.safe_load(file.read_text()))
            section = f"{group}." if group in sections() else ""
            yield f"{group}/{file.stem}", {section + name: value for name, value in content.items()}


def test_every_key_of_conf_is_in_the_schema() -> None:
    for name, content in conf_files():
        assert set(content) - {"defaults"} <= set(keys()), name


def test_the_defaults_of_conf_are_those_of_the_schema() -> None:
    assert load_config([]) == Config()
    defaults = yaml.safe_load((paths.conf_dir() / "config.yaml").read_text())["defaults"]
    chosen = {f"{group}/{option}" for entry in defaults if isinstance(entry, dict) for group, option in entry.items()}
    chosen |= {"proposer/llm", "proposer/mailbox"}  # whose keys concern nobody else
    written = {key for name, content in conf_files() if name in chosen | {"config"} for key in content}
    assert written - {"defaults"} == set(keys()), "a key that no file of conf/ shows, or one of nowhere"


def test_every_key_of_the_schema_is_read_somewhere() -> None:
    """A key that nothing reads is a promise that nothing keeps: `budget.minutes`, `config.minutes` or so must occur."""
    package = Path(kevolve.__file__).parent
    sources = [file for file in package.rglob("*.py") if file.name != "config.py" and "configuration" not in file.parts]
    read = {access for file in sources for access in accesses(ast.parse(file.read_text(encoding="utf-8")))}
    unread = []
    for name in keys():
        section, _, leaf = name.rpartition(".")
        if not {(section, leaf), ("config", leaf), ("settings", leaf)} & read:
            unread.append(name)
    assert unread == []


def accesses(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(`budget`, `minutes`) for `self._budget.minutes`, and so on for every attribute that is read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
            yield name.strip("_"), node.attr


@pytest.mark.skipif(find_spec("litellm") is None, reason="the extra `llm` is not installed")
def test_models_with_shares_and_prices_need_no_quotes() -> None:
    typed = [
        "proposer=llm",
        "proposer.models=[openai/a-4.1*2,vertex_ai/b@001]",
        "proposer.prices=[openai/a-4.1@0.5/1.5]",
    ]
    settings = load_config(typed).proposer
    assert shares(settings.models) == {"openai/a-4.1": 2.0, "vertex_ai/b@001": 1.0}
    assert prices(settings.prices) == {"openai/a-4.1": Price(0.5, 1.5)}
