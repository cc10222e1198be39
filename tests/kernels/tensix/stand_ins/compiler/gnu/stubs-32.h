// Stand-in: what glibc leaves out of its 32-bit variant; nothing is linked here.
