// A sweep by Nextflow: one task for each item, then the table of all; finished items are not run again.
//   nextflow run sweep-items.nf --models 'runs/checkpoint-*'
params.models = 'runs/checkpoint-*'
params.into = 'reports'

process LIST {
    cache false
    output: stdout
    script: """cd '${launchDir}' && attn sweep rank-collapse --variants SAN --glob '${params.models}' --into '${params.into}' --list-items --format jsonl"""
}

process ITEM {
    tag "${item.item}"
    errorStrategy 'ignore' // one that fails is a gap in the table, and fails TABLE
    input: val item
    output: val item.report
    script: """cd '${launchDir}' && ${item.line}"""
}

process TABLE {
    cache false
    input: val reports
    script: """cd '${launchDir}' && attn sweep rank-collapse --variants SAN --glob '${params.models}' --collect '${params.into}' --format csv -o table.csv"""
}

workflow {
    items = LIST().splitText().map { line -> new groovy.json.JsonSlurperClassic().parseText(line) }
    TABLE(ITEM(items.filter { item -> !item.done }).toList())
}
