"""The window: the live engine, drawn by the adapter that computes (`wggml demo`).

`engine` computes on a thread of its own and publishes immutable snapshots; `app` and `tabs` draw
them. Only this package knows imgui, glfw and the screen.
"""
