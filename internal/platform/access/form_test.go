package access

import (
	"regexp"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

func TestUsersAndPasswordsHaveTheFormsOfTheContract(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromFile("../../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	character := regexp.MustCompile(`\\u([0-9A-F]{4})`) // the notation of JavaScript
	for name, f := range map[string]form{"Username": usernameForm, "AppId": appIDForm, "Password": passwordForm} {
		schema := doc.Components.Schemas[name].Value
		want := character.ReplaceAllString(schema.Pattern, `\x{$1}`)
		if f.pattern.String() != want || f.minLength != int(schema.MinLength) || f.maxLength != int(*schema.MaxLength) {
			t.Errorf("%s: %+v, want %s, %d to %d characters", name, f, want, schema.MinLength, *schema.MaxLength)
		}
	}
}
