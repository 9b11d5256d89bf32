# SPDX-License-Identifier: MIT
"""The wheel holds a library for one machine and no extension module: any Python 3 on such a machine takes it."""
from setuptools import Distribution, setup
from wheel.bdist_wheel import bdist_wheel


class Platform(Distribution):
    def has_ext_modules(self):
        return True


class AnyPython(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(distclass=Platform, cmdclass={"bdist_wheel": AnyPython})
