package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"conclave"
)

// hidden replaces a secret in --print-config.
const hidden = "(hidden)"

// applyLayers sets the flags that the command line left alone from the file,
// then from the environment.
func applyLayers(flags *pflag.FlagSet, role conclave.Role, configFlag string, environ []string) error {
	prefix := "CONCLAVE_" + strings.ToUpper(string(role)) + "_"
	environment := koanf.New(".")
	err := environment.Load(env.Provider(".", env.Opt{
		Prefix: prefix,
		TransformFunc: func(k, v string) (string, any) {
			return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(k, prefix)), "_", "-"), v
		},
		EnvironFunc: func() []string { return environ },
	}), nil)
	if err != nil {
		return fmt.Errorf("read the environment: %w", err)
	}

	config := configFlag
	if config == "" {
		config = environment.String("config")
	}
	fromFile := koanf.New(".")
	if config != "" {
		if err := fromFile.Load(file.Provider(config), yaml.Parser()); err != nil {
			return fmt.Errorf("--config %s: %w", config, err)
		}
	}

	given := map[string]bool{} // on the command line
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	for _, layer := range []struct {
		from string
		k    *koanf.Koanf
		name func(key string) string
	}{
		{config, fromFile, func(key string) string { return key }},
		{"the environment", environment, func(key string) string {
			return prefix + strings.ReplaceAll(strings.ToUpper(key), "-", "_")
		}},
	} {
		all := layer.k.All()
		for _, key := range slices.Sorted(maps.Keys(all)) {
			f := flags.Lookup(key)
			if f == nil || key == "help" || key == "version" {
				return fmt.Errorf("%s: unknown key %s", layer.from, layer.name(key))
			}
			if given[key] {
				continue
			}
			if err := setFlag(f, all[key]); err != nil {
				return fmt.Errorf("%s: %s: %w", layer.from, layer.name(key), err)
			}
			f.Changed = true
		}
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
	out, err := yaml.Parser().Marshal(settings)
	if err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	_, err = w.Write(out)
	return err
}
