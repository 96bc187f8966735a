package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// collations are those with which the statements of Conclave, and the engine's own tables,
// compare and sort. A statement with another one panics.
var collations = []string{
	"ascii_bin", "ascii_general_ci", "binary", "latin1_swedish_ci", "utf8mb3_bin", "utf8mb3_general_ci",
	"utf8mb4_0900_ai_ci", "utf8mb4_0900_bin", "utf8mb4_bin", "utf8mb4_general_ci",
}

const (
	weightFiles      = 70  // of collations
	weightFunctions  = 181 // of collations
	spatialFunctions = 61  // in the engine's registry
)

// withoutData removes what no statement of Conclave needs: the weights of other collations,
// spatial reference systems and functions, and filters in JSON paths, which are evaluated
// by go/types. It also removes the HTTP server from the packer.
func withoutData(m modules) error {
	if err := os.Remove(filepath.Join(m[packer].dir, "http.go")); err != nil {
		return err
	}
	e := m[engine]
	if err := collationsOnly(e); err != nil {
		return err
	}
	if err := e.edit("sql/types/spatial_reference_systems.go", twoSystems); err != nil {
		return err
	}
	err := e.edit("sql/expression/function/registry.go", func(text string) (string, error) {
		lines := slices.Collect(strings.Lines(text))
		n := len(lines)
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, "spatial.") })
		if n -= len(lines); n != spatialFunctions {
			return "", fmt.Errorf("%d spatial functions, want %d", n, spatialFunctions)
		}
		return once(strings.Join(lines, ""), `	"github.com/dolthub/go-mysql-server/sql/expression/function/spatial"`+"\n", "")
	})
	if err != nil {
		return err
	}
	return m[paths].edit("jsonpath.go", func(text string) (string, error) {
		text, err := once(text, "\t\"go/token\"\n\t\"go/types\"\n", "")
		if err != nil {
			return "", err
		}
		head, rest, found := strings.Cut(text, "\tvar exp string\n\tif isNumber(obj1)")
		body, tail, ends := strings.Cut(rest, "\n}\n")
		if !found || !ends || !strings.Contains(body, "types.Eval(fset, nil, 0, exp)") {
			return "", fmt.Errorf("no filter is evaluated by types.Eval")
		}
		return head + "\treturn false, fmt.Errorf(\"filters are left out here\")\n}\n" + tail, nil
	})
}

var weight = regexp.MustCompile(`(?s)(func \w+_RuneWeight\(r rune\) int32 \{\n).*?\n\}\n`)

func collationsOnly(e module) error {
	files, err := filepath.Glob(filepath.Join(e.dir, "sql", "encodings", "*_Weights.bin"))
	if err != nil {
		return err
	}
	if len(files) != weightFiles {
		return fmt.Errorf("%d collations have files of weights, want %d", len(files), weightFiles)
	}
	for _, f := range files {
		if slices.Contains(collations, strings.TrimSuffix(filepath.Base(f), "_Weights.bin")) {
			continue
		}
		if err := os.Truncate(f, 0); err != nil {
			return err
		}
	}
	if files, err = filepath.Glob(filepath.Join(e.dir, "sql", "encodings", "*.go")); err != nil {
		return err
	}
	functions := 0
	for _, f := range files {
		name := filepath.Base(f)
		err := e.edit("sql/encodings/"+name, func(text string) (string, error) {
			functions += len(weight.FindAllString(text, -1))
			if slices.Contains(collations, strings.TrimSuffix(name, ".go")) {
				return text, nil
			}
			return weight.ReplaceAllString(text, "${1}\tpanic(\"this collation is left out here\")\n}\n"), nil
		})
		if err != nil {
			return err
		}
	}
	if functions != weightFunctions {
		return fmt.Errorf("%d collations have weights, want %d", functions, weightFunctions)
	}
	return nil
}

// twoSystems leaves the systems without and with the coordinates of the earth.
func twoSystems(text string) (string, error) {
	const list = "var SupportedSRIDs = map[uint32]SpatialRef{\n"
	head, all, found := strings.Cut(text, list)
	if !found {
		return "", fmt.Errorf("there is no SupportedSRIDs")
	}
	kept, n := "", 0
	for line := range strings.Lines(all) {
		if strings.HasPrefix(line, "\tuint32(0):") || strings.HasPrefix(line, "\tuint32(4326):") {
			kept += line
			n++
		}
	}
	if n != 2 {
		return "", fmt.Errorf("%d spatial reference systems are kept, want 2", n)
	}
	return head + list + kept + "}\n", nil
}
