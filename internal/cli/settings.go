package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"conclave"
)

// hidden replaces a secret in --print-config.
const hidden = "(hidden)"

// applyLayers sets the flags that the command line left alone from the file,
// then from the environment.
func applyLayers(flags *pflag.FlagSet, role conclave.Role, config string, environ []string) error {
	prefix := "CONCLAVE_" + strings.ToUpper(string(role)) + "_"
	fromFile, environment := map[string]any{}, map[string]any{}
	for _, entry := range environ {
		if name, ok := strings.CutPrefix(entry, prefix); ok {
			name, value, _ := strings.Cut(name, "=")
			environment[strings.ReplaceAll(strings.ToLower(name), "_", "-")] = value
		}
	}
	if config == "" {
		config, _ = environment["config"].(string)
	}
	if config != "" {
		text, err := os.ReadFile(config)
		if err == nil {
			err = yaml.Unmarshal(text, &fromFile)
		}
		if err != nil {
			return fmt.Errorf("--config %s: %w", config, err)
		}
	}
	given := map[string]bool{} // on the command line
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if err := applyLayer(flags, given, fromFile, config, func(key string) string { return key }); err != nil {
		return err
	}
	return applyLayer(flags, given, environment, "the environment", func(key string) string {
		return prefix + strings.ReplaceAll(strings.ToUpper(key), "-", "_")
	})
}

// applyLayer sets the flags that are not given from the settings of one layer. An error
// names the layer and the key, as it is written there.
func applyLayer(flags *pflag.FlagSet, given map[string]bool, settings map[string]any, layer string, written func(key string) string) error {
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		f := flags.Lookup(key)
		if f == nil || key == "help" || key == "version" {
			return fmt.Errorf("%s: unknown key %s", layer, written(key))
		}
		if given[key] {
			continue
		}
		if err := setFlag(f, settings[key]); err != nil {
			return fmt.Errorf("%s: %s: %w", layer, written(key), err)
		}
		f.Changed = true
	}
	return nil
}

// setFlag sets a flag to a YAML value; a list replaces the flag's list.
func setFlag(f *pflag.Flag, value any) error {
	list, isList := f.Value.(pflag.SliceValue)
	switch v := value.(type) {
	case nil:
		return fmt.Errorf("no value")
	case []any:
		if !isList {
			return fmt.Errorf("a list is given, want one value")
		}
		items := make([]string, len(v))
		for i, x := range v {
			items[i] = fmt.Sprint(x)
		}
		return list.Replace(items)
	case string:
		if isList {
			return list.Replace(strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' }))
		}
	}
	return f.Value.Set(fmt.Sprint(value))
}

// printConfig writes every setting in the form that --config reads.
func printConfig(w io.Writer, flags *pflag.FlagSet, secrets []string) error {
	settings := map[string]any{}
	flags.VisitAll(func(f *pflag.Flag) {
		list, isList := f.Value.(pflag.SliceValue)
		switch {
		case slices.Contains([]string{"help", "version", "config", "print-config"}, f.Name):
		case slices.Contains(secrets, f.Name) && f.Value.String() != "":
			settings[f.Name] = hidden
		case isList:
			settings[f.Name] = list.GetSlice()
		default:
			settings[f.Name] = f.Value.String()
		}
	})
	out, err := yaml.Marshal(settings)
	if err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	_, err = w.Write(out)
	return err
}
