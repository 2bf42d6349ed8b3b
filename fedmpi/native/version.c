/* The arguments that fedmpi/native/__init__.py declares; raise both together. */
int fedmpi_native_version(void) { return 3; }
