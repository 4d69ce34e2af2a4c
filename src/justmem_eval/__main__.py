from justmem_eval.cli import main

main()
