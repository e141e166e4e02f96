"""The `wggml` command. Heavy modules are imported inside the commands, so that help is instant."""
