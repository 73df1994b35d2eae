"""The SQL files of this plugin."""
