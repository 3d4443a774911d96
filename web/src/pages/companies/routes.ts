import { OfficeBuilding } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'companies',
    path: 'companies',
    component: () => import('./CompaniesPage.vue'),
    title: 'companies.title',
    operations: ['listCompanies'],
    nav: { section: 'administration', order: 10, icon: OfficeBuilding },
  },
]
