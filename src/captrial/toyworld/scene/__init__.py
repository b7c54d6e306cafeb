"""Scenes of the toy world, before anything is drawn: places, object classes, layout, interactions and relations."""

from captrial.toyworld.scene.generation import usual_scene, wild_scene
from captrial.toyworld.scene.layout import Layout, Scene, SceneObject
from captrial.toyworld.scene.object_classes import OBJECT_CLASSES, ObjectClass
from captrial.toyworld.scene.places import PLACES, Place
from captrial.toyworld.scene.relations import relations
from captrial.toyworld.scene.robot import CameraView, RobotRoom, robot_scene

__all__ = [
    "OBJECT_CLASSES",
    "PLACES",
    "CameraView",
    "Layout",
    "ObjectClass",
    "Place",
    "RobotRoom",
    "Scene",
    "SceneObject",
    "relations",
    "robot_scene",
    "usual_scene",
    "wild_scene",
]
