package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"lksms/cmd/lksms/remote"
)

// completionWord is the hidden command that shells call with the words of the current command line. The shell completes the last word.
const completionWord = "__complete"

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help returns the text that is shown below the flags.
func (completionCmd) Help() string {
	return `bash:  source <(lksms completion bash)        in ~/.bashrc
zsh:   source <(lksms completion zsh)         in ~/.zshrc, after compinit
fish:  lksms completion fish | source         in ~/.config/fish/config.fish`
}

var completionScripts = map[string]string{
	"bash": `_lksms() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _lksms lksms
`,
	"zsh": `_lksms() {
    local -a found
    found=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then compadd -a found; else _files; fi
}
compdef _lksms lksms
`,
	"fish": `function __lksms_complete
    set -l words (commandline -opc)
    set -l found ($words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c lksms -f -a '(__lksms_complete)'
`,
}

func (c *completionCmd) Run() error {
	_, err := fmt.Fprint(os.Stdout, completionScripts[c.Shell])
	return err
}

// complete returns the possible completions of the last word: commands, flags, or values of a flag or argument. If complete returns no completions, the shell
// offers files.
func complete(app *kong.Application, words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	typed, node := words[len(words)-1], app.Node
	flags, position := node.Flags, 0
	for i := 0; i < len(words)-1; i++ {
		word := words[i]
		if strings.HasPrefix(word, "-") {
			if flag := findFlag(flags, word); flag != nil && !flag.IsBool() && !strings.Contains(word, "=") {
				if i++; i == len(words)-1 {
					return withPrefix(valuesOf(flag.Value), typed)
				}
			}
			continue
		}
		child := findChild(node, word)
		if child == nil {
			position++
			continue
		}
		node, position = child, 0
		flags = append(slices.Clip(flags), node.Flags...)
	}
	if name, value, isAssigned := strings.Cut(typed, "="); strings.HasPrefix(typed, "-") && isAssigned {
		if flag := findFlag(flags, name); flag != nil {
			var all []string
			for _, v := range withPrefix(valuesOf(flag.Value), value) {
				all = append(all, name+"="+v)
			}
			return all
		}
		return nil
	}
	var all []string
	if strings.HasPrefix(typed, "-") {
		for _, flag := range flags {
			if !flag.Hidden {
				all = append(all, "--"+flag.Name)
			}
		}
		return withPrefix(all, typed)
	}
	for _, child := range node.Children {
		if !child.Hidden {
			all = append(all, child.Name)
		}
	}
	if position < len(node.Positional) {
		all = append(all, valuesOf(node.Positional[position])...)
	}
	return withPrefix(all, typed)
}

func findFlag(flags []*kong.Flag, word string) *kong.Flag {
	name, _, _ := strings.Cut(word, "=")
	for _, flag := range flags {
		if name == "--"+flag.Name || flag.Short != 0 && name == "-"+string(flag.Short) {
			return flag
		}
	}
	return nil
}

func findChild(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name || slices.Contains(child.Aliases, name) {
			return child
		}
	}
	return nil
}

// valuesOf returns the possible values of a flag or argument: its enum, or the names of the profiles.
func valuesOf(value *kong.Value) []string {
	if value.Tag.Get("completion") == "profile" {
		all, err := remote.ReadProfiles()
		if err != nil {
			return nil // a shell cannot show an error
		}
		return slices.Sorted(maps.Keys(all.Profiles))
	}
	return value.EnumSlice()
}

func withPrefix(all []string, prefix string) []string {
	return slices.DeleteFunc(all, func(word string) bool { return !strings.HasPrefix(word, prefix) })
}
