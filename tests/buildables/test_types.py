"""Config, Partial and autoconvert: fiddle's objects, with NeMo-Run's habits."""

from __future__ import annotations

import copy

import fiddle as fdl
import pytest

from nemo_launch.buildables.types import Config, Partial, autoconvert
from nemo_launch.errors import InputError
from tests.buildables.things import Model, Optimizer, anything, only_by_position, train


def test_they_are_fiddles_and_build_as_fiddles_do() -> None:
    config = Config(Model, layers=2)
    assert isinstance(config, fdl.Config)
    assert isinstance(Partial(train), fdl.Partial)
    assert fdl.build(config) == Model(2)
    assert fdl.build(Partial(Model, layers=1))(layers=5) == Model(5)
    assert config == copy.deepcopy(config)


def test_arguments_by_position() -> None:
    assert fdl.build(Config(Model, 2, "gelu")) == Model(2, "gelu")
    assert Partial(only_by_position, 1, 2, 3)[:] == [1, 2, 3]


def test_a_dataclass_instance_becomes_a_config_whose_fields_can_be_set() -> None:
    recipe = Partial(train, model=Model(2), optimizer=Optimizer(schedule=Optimizer(lr=1.0)))
    assert isinstance(recipe.model, Config)
    recipe.optimizer.lr = 3.0
    recipe.optimizer.schedule.lr = 4.0
    assert fdl.build(recipe.optimizer) == Optimizer(lr=3.0, schedule=Optimizer(lr=4.0))


@pytest.mark.parametrize("kind", [Config, Partial])
def test_a_name_that_the_function_does_not_take(kind: type) -> None:
    with pytest.raises(InputError, match=r"train takes no modle. Did you mean model\?") as refused:
        kind(train, modle=1, max_steps=3, otpimizer=2)
    assert len(refused.value.problems) == 2
    assert isinstance(refused.value, TypeError), "as fiddle says it"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ((3,), "neither a function nor a class"),
        ((Config(Model),), "configured already"),
        ((Model, 1, 2, 3, 4), "3 pos"),
    ],
)
def test_what_cannot_be_configured(args: tuple[object, ...], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Config(*args)  # type: ignore[arg-type]


def test_any_name_is_taken_where_the_function_takes_any() -> None:
    assert Config(anything, whatever=1).whatever == 1
    assert fdl.build(Config(dict, a=1)) == {"a": 1}


def test_clone_broadcast_and_walk() -> None:
    recipe = Partial(
        train, model=Config(Model, layers=2), optimizer=Config(Optimizer), free=[Config(Optimizer, lr=2.0)]
    )
    other = recipe.clone()
    assert recipe.broadcast(lr=5.0) is recipe
    assert (recipe.optimizer.lr, recipe.free[0].lr, other.optimizer.lr) == (5.0, 5.0, 1e-3)
    recipe.walk(layers=lambda config: config.layers * 2)
    assert recipe.model.layers == 4


@autoconvert
def optimizer(lr: float = 1e-3) -> Optimizer:
    return Optimizer(lr=lr, betas=(0.1, 0.2))


@autoconvert(partial=True)
def recipe(layers: int) -> None:
    return train(model=Model(layers=layers), optimizer=optimizer(lr=3.0))


@autoconvert
def with_configs() -> Config[Optimizer]:
    return Config(Optimizer, schedule=Config(Model, layers=1))


def test_autoconvert() -> None:
    assert optimizer(lr=2.0) == Config(Optimizer, lr=2.0, betas=(0.1, 0.2))
    assert type(optimizer()) is Config
    made = recipe(3)
    assert type(made) is Partial
    assert (type(made.model), made.model.layers, made.optimizer.lr) == (Config, 3, 3.0)
    assert with_configs() == Config(Optimizer, schedule=Config(Model, layers=1))


def test_a_field_that_is_not_there() -> None:
    recipe = Partial(train, model=Config(Model))
    with pytest.raises(AttributeError, match=r"^Model takes no leyers. Did you mean layers\?$"):
        recipe.model.leyers = 3
    with pytest.raises(AttributeError, match=r"^train takes no modle. Did you mean model\?$"):
        _ = recipe.modle.layers
    with pytest.raises(AttributeError, match="layers of Model is not set"):
        _ = recipe.model.layers
    assert not hasattr(recipe, "modle")
