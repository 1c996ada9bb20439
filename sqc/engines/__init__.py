"""Devices and engines: the second spelling of a step stage, brought to the first."""
