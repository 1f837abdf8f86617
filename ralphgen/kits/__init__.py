"""The systems that ralphgen emits a server for, a folder each; `registry` lists them."""
