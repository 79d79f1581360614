"""Machine code for CPUs, made from a method's own functions: jaxpr -> LLVM -> threads."""
