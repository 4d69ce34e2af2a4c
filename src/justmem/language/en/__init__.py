"""The rules of English. `english.English` is the implementation of `Language`."""
