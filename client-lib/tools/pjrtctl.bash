# bash completion for pjrtctl

_pjrtctl() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  # "--arg=..." arrives as three words.
  [ "$previous" = = ] && previous=${COMP_WORDS[COMP_CWORD - 2]}
  [ "$current" = = ] && current='' && previous=${COMP_WORDS[COMP_CWORD - 1]}
  local commands='info devices stats session slot compile run version help' command='' word
  local compile_options='--device --replicas --partitions --spmd --xla --deadline'
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case " $commands " in *" $word "*) command=$word && break ;; esac
  done
  COMPREPLY=()
  case $previous in
    --target)
      case $current in
        g*) mapfile -t COMPREPLY < <(compgen -W "grpc:// grpcs://" -- "$current") ;;
        *) mapfile -t COMPREPLY < <(compgen -P unix: -f -- "${current#unix:}") ;;
      esac
      compopt -o nospace 2>/dev/null
      return
      ;;
    --save)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return
      ;;
    --arg)
      mapfile -t COMPREPLY < <(compgen -W 'slot: pred[ s4[ s8[ s16[ s32[ s64[ u4[ u8[ u16[ u32[ u64[ f16[ bf16[ f32[ f64[ c64[ c128[ f8e4m3fn[ f8e5m2[' -- "$current")
      compopt -o nospace 2>/dev/null
      return
      ;;
    --device | --replicas | --partitions | --deadline | --xla | --session | --feed-back | --ttl | --steps | --every | --until | --stack | --uid) return ;;
  esac
  case $current in
    -*)
      local options='--target --json --help'
      case $command in
        compile) options+=" $compile_options" ;;
        run) options+=" --arg --session --ttl --feed-back --steps --every --until --stack --save --full $compile_options" ;;
        slot) options+=' --device --ttl --save --full --everybody --uid' ;;
        '') options+=' --version' ;;
      esac
      mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
      return
      ;;
  esac
  case $command in
    '') mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current") ;;
    help) mapfile -t COMPREPLY < <(compgen -W "${commands% help}" -- "$current") ;;
    session) [ "$previous" = session ] && mapfile -t COMPREPLY < <(compgen -W 'ls show close' -- "$current") ;;
    slot) [ "$previous" = slot ] && mapfile -t COMPREPLY < <(compgen -W 'ls get put rm publish borrow withdraw published' -- "$current") ;;
    compile | run)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      ;;
  esac
}
complete -F _pjrtctl pjrtctl
