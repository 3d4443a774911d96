import { t } from '@/i18n'

/** The countries of a company or channel in a form. */
export interface CountriesValue {
  any_country: boolean
  countries: string[]
  countries_off: string[]
}

/** The countries of a stored company or channel; of a new one, all. */
export function countriesValue(of: CountriesValue | null): CountriesValue {
  return { any_country: of?.any_country ?? true, countries: [...(of?.countries ?? [])], countries_off: [...(of?.countries_off ?? [])] }
}

/** The countries in a cell of a list. */
export function countriesText(of: CountriesValue): string {
  const allowed = of.any_country ? t('companies.allCountries') : of.countries.join(', ') || t('companies.noCountry')
  return of.countries_off.length > 0 ? t('companies.withoutCountries', { allowed, off: of.countries_off.join(', ') }) : allowed
}
