// Stand-in for what tt-metal writes for a kernel with preprocessor definitions of its own: these have none.
