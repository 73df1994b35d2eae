"""The SQL files of this plugin, applied after those of the core."""
