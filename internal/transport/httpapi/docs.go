package httpapi

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5emb"

	document "lksms/api"
	"lksms/docs"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/manual"
)

// removeCredentials removes credentials that earlier versions of the page stored in the browser, where other scripts could read them.
const removeCredentials = `<script>localStorage.removeItem("authorized")</script>`

// mountDocs serves the embedded Swagger UI, and the contract as YAML and JSON (S0.16). Both use basePath as the server URL.
func mountDocs(mux *http.ServeMux, basePath string, guard *gate.Gate) {
	contract := bytes.Replace(document.YAML, []byte("\nservers:\n  - url: /\n"), []byte("\nservers:\n  - url: "+basePath+"/\n"), 1)
	asJSON := sync.OnceValues(func() ([]byte, error) { return inJSON(contract) })
	ui := v5emb.NewHandlerWithConfig(swgui.Config{
		Title: "LKSMS", BasePath: basePath + "/docs/", InternalBasePath: "/docs/",
		SwaggerJSON: basePath + "/openapi.yaml", // YAML keeps the order of operations and examples; JSON does not
		SettingsUI:  map[string]string{"persistAuthorization": "false", "displayRequestDuration": "true", "tryItOutEnabled": "true"},
		AppendHead:  removeCredentials,
	})
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		body, err := asJSON()
		if err != nil {
			guard.Fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // an error means that the client disconnected
	})
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(contract)
	})
	withPolicy := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", docsPolicy)
			next.ServeHTTP(w, r)
		})
	}
	mux.Handle("GET /docs/", withPolicy(ui))
	mux.Handle("GET "+manual.Prefix, withPolicy(manual.Handler(docs.Files, guard.NotFound(), guard.Fail)))
	for _, page := range []string{"/docs/", manual.Prefix, manual.Prefix + manual.Chinese} {
		mux.Handle("GET "+strings.TrimSuffix(page, "/"), http.RedirectHandler(basePath+page, http.StatusFound))
	}
}

// docsPolicy allows Swagger UI to run its own scripts, including an inline script, and to call only this server.
const docsPolicy = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// inJSON converts the contract to JSON. It does not use the generated copy, which has Go method names as operation ids.
func inJSON(contract []byte) ([]byte, error) {
	spec, err := openapi3.NewLoader().LoadFromData(contract)
	if err != nil {
		return nil, fmt.Errorf("load contract: %w", err)
	}
	body, err := spec.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("write contract as JSON: %w", err)
	}
	return body, nil
}
