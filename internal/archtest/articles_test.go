package archtest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestArticleNames_HaveACounterpart checks that docs/article-names.md leads from
// each name of an article to what declares its counterpart, or gives the reason
// why there is none, and that it has each name once.
func TestArticleNames_HaveACounterpart(t *testing.T) {
	text, err := os.ReadFile("../../docs/article-names.md")
	require.NoError(t, err)
	declared := declarations(t)
	names := map[string]bool{}
	article := ""
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			article, _, _ = strings.Cut(title, ":")
		}
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 2 || strings.Contains(line, "in the article") || strings.HasPrefix(line, "| ---") {
			continue
		}
		theirs, _, _ := strings.Cut(cells[0], " of a ") // `doStop` of a session
		if theirs == cells[0] {
			for _, m := range quoted.FindAllStringSubmatch(theirs, -1) {
				assert.False(t, names[article+m[1]], "article %s: %s is listed twice", article, m[1])
				names[article+m[1]] = true
			}
		}
		found := false
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			if identifier.MatchString(m[1]) && !namedFile.MatchString(m[1]) {
				assert.True(t, declared[m[1]], "article %s: %s is not declared", article, m[1])
			}
			found = found || declared[m[1]] || namedFile.MatchString(m[1])
		}
		reason, none := strings.CutPrefix(cells[1], "none")
		assert.True(t, found || none && len(reason) > 20, "article %s: %s has neither a counterpart nor a reason", article, cells[0])
	}
	assert.Greater(t, len(names), 200, "the page was understood")
}

// identifier matches a name of the code with its package.
var identifier = regexp.MustCompile(`^[a-z]+(\.\w+)+$`)

// TestArticles_QuoteNoRetelling checks that a test which names an article's claim
// puts it in quotation marks only if the words are the article's own, which are
// Chinese or code.
func TestArticles_QuoteNoRetelling(t *testing.T) {
	comments := 0
	for _, file := range tree(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile("../.." + file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if _, claim, found := strings.Cut(line, "// Article 00"); found {
				comments++
				assert.NotRegexp(t, `"[a-z ]+ [a-z ]+`, claim, file)
			}
		}
	}
	assert.Greater(t, comments, 20, "the comments were understood")
}
